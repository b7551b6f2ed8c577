"""How a report looks: its style sheet, for light and dark screens, phones and paper. No fonts or images are fetched."""

from __future__ import annotations

import base64
import hashlib

STYLE = """
:root{color-scheme:light dark;--page:#fff;--ink:#1b1f24;--soft:#5d6673;--line:#e4e7eb;--panel:#f6f7f9;--accent:#2f66c8;
--k0:#3b72d9;--k1:#e08a2e;--k2:#2a9d8c;--k3:#aab2bd;--bad:#c6403b;--bad-panel:#fcf1f0;--good:#237a57;--warn:#9a6400}
@media (prefers-color-scheme:dark){:root{--page:#12151a;--ink:#e5e8ec;--soft:#98a1ae;--line:#272c34;--panel:#191d24;
--accent:#84aef7;--k0:#6f9ff2;--k1:#e9a455;--k2:#4fbdad;--k3:#5d6673;--bad:#f07b74;--bad-panel:#2a1b1c;--good:#63c69a;
--warn:#e0b04f}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0;background:var(--page);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,
"Helvetica Neue",Arial,sans-serif;font-variant-numeric:tabular-nums}
main{max-width:1120px;margin:0 auto;padding:40px 28px 56px}
h1,h2,h3,p,dl,dd,ol,ul,figure,table{margin:0;padding:0}
h1{font-size:30px;line-height:1.2;font-weight:650;letter-spacing:-.015em;overflow-wrap:anywhere}
h2{font-size:17px;line-height:1.35;font-weight:650;letter-spacing:-.005em}
h3{font-size:13.5px;line-height:1.4;font-weight:650}
code,.command{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"Liberation Mono",monospace;font-size:.88em}
.over,.uri{color:var(--soft);font-size:13px}
.over{margin-bottom:6px}
.uri{margin-top:4px;overflow-wrap:anywhere}
.about{margin-top:10px;max-width:68ch;overflow-wrap:anywhere}
.strip{display:grid;grid-template-columns:repeat(auto-fit,minmax(146px,1fr));gap:1px;margin-top:26px;background:var(--line);
border:1px solid var(--line);border-radius:8px;overflow:hidden}
.strip div{background:var(--page);padding:13px 16px 14px;min-width:0}
.strip dt{color:var(--soft);font-size:12.5px}
.strip dd{font-size:21px;line-height:1.3;font-weight:600;letter-spacing:-.01em;overflow-wrap:anywhere}
.strip dd+dd{font-size:12.5px;line-height:1.4;font-weight:400;letter-spacing:0;color:var(--soft);margin-top:1px}
.strip .bad dd:first-of-type{color:var(--bad)}
.strip .good dd:first-of-type{color:var(--good)}
section{display:grid;grid-template-columns:232px minmax(0,1fr);gap:8px 36px;margin-top:34px;padding-top:26px;
border-top:1px solid var(--line)}
.lede{color:var(--soft);font-size:13.5px;margin-top:6px;overflow-wrap:anywhere}
.alone{color:var(--soft);font-size:14px;padding-top:2px;max-width:74ch;overflow-wrap:anywhere}
.body>*+*{margin-top:24px}
.pair{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(330px,100%),1fr));gap:26px 32px}
.pair>*{min-width:0}
.advice{list-style:none}
.advice li{padding:0 0 0 16px;border-left:3px solid var(--line)}
.advice li+li{margin-top:20px}
.advice .urgent{border-color:var(--bad)}
.advice h3{font-size:15px}
.advice p{color:var(--soft);font-size:13.5px;max-width:74ch;overflow-wrap:anywhere}
.command{display:block;margin:8px 0;padding:8px 12px;background:var(--panel);border-radius:6px;color:var(--ink);
overflow-wrap:anywhere;user-select:all}
.legend{display:flex;flex-wrap:wrap;gap:4px 18px;list-style:none;font-size:12.5px;color:var(--soft)}
.legend svg{width:10px;height:10px;margin-right:6px;vertical-align:-.5px}
.plot{display:block;width:100%;overflow:hidden}
.plot.tall{height:148px}.plot.low{height:30px}.plot.depth{height:46px}.plot.bars{height:124px}
.frame{margin-top:10px;border-bottom:1px solid var(--line)}
.frame.top{border-top:1px dashed var(--line)}
.scale{font-size:12px;color:var(--soft);line-height:1.35;margin-top:10px}
.scale+.frame{margin-top:3px}
.axis{display:flex;justify-content:space-between;gap:10px;margin-top:5px;font-size:12px;color:var(--soft);line-height:1.35}
.axis span{min-width:0;overflow-wrap:anywhere;text-align:center}
.axis span:first-child{text-align:left}.axis span:last-child{text-align:right}
.k0{fill:var(--k0)}.k1{fill:var(--k1)}.k2{fill:var(--k2)}.k3{fill:var(--k3)}.lost{fill:var(--bad)}
.track{fill:var(--panel)}.hit{fill:transparent}.area{fill:var(--k0);fill-opacity:.22}
.edge{fill:none;stroke:var(--k0);stroke-width:1.25px;vector-effect:non-scaling-stroke}
g:hover .hit{fill:var(--ink);fill-opacity:.06}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:13.5px;line-height:1.4}
th,td{padding:5px 0;text-align:left;vertical-align:top;border-bottom:1px solid var(--line)}
th{color:var(--soft);font-weight:400;font-size:12.5px;vertical-align:bottom}
th+th,td+td{padding-left:14px}
tbody tr:last-child>*{border-bottom:0}
td{overflow-wrap:anywhere;unicode-bidi:isolate}
td.wide{overflow-wrap:break-word}
.n{text-align:right;white-space:nowrap;overflow-wrap:normal}
.w{white-space:nowrap;overflow-wrap:normal}
.soft{color:var(--soft)}
.name{min-width:11ch}
.share{width:26%;min-width:64px;vertical-align:middle}
.share svg{display:block;width:100%;height:9px;border-radius:2px}
.facts{display:grid;grid-template-columns:max-content minmax(0,1fr);gap:6px 22px;font-size:13.5px}
.facts dt{color:var(--soft)}
.facts dd{overflow-wrap:anywhere}
.yes,.no,.maybe,.fixed{white-space:nowrap;overflow-wrap:normal}
.yes{color:var(--good)}.no{color:var(--bad)}.maybe{color:var(--warn)}
figure>h3+p{color:var(--soft);font-size:13px}
h3+table,h3+.scroll{margin-top:6px}
.note{color:var(--soft);font-size:12.5px;margin-top:8px}
summary{cursor:pointer;font-size:13.5px;font-weight:600}
details>*+*{margin-top:8px}
footer{margin-top:40px;padding-top:16px;border-top:1px solid var(--line);color:var(--soft);font-size:12.5px}
@media (max-width:760px){main{padding:24px 16px 40px}section{grid-template-columns:minmax(0,1fr);margin-top:28px;
padding-top:20px}.strip{grid-template-columns:repeat(2,minmax(0,1fr));margin-top:20px}.strip div{padding:11px 12px}
.strip dd{font-size:18px}h1{font-size:25px}.wide{display:none}.lede{max-width:none}.body{margin-top:10px}
.w{white-space:normal}
.axis span:nth-child(even):nth-last-child(n+2){display:none}}
@page{margin:14mm}
@media print{:root{color-scheme:light;--page:#fff;--ink:#000;--soft:#444;--line:#ccc;--panel:#f3f3f3;--k0:#3b72d9;
--k1:#e08a2e;--k2:#2a9d8c;--k3:#aab2bd;--bad:#c6403b;--good:#237a57;--warn:#9a6400}
main{max-width:none;padding:0}section{grid-template-columns:150px minmax(0,1fr);gap:8px 24px;margin-top:22px;
padding-top:16px}.wide{display:table-cell}tr,figure,.advice li,.strip,.chart{break-inside:avoid}
h2,h3,.lede{break-after:avoid}.command{border:1px solid #ccc}.strip{grid-template-columns:repeat(3,1fr)}
svg{print-color-adjust:exact;-webkit-print-color-adjust:exact}}
"""

POLICY = (
    "default-src 'none'; style-src 'sha256-"
    + base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    + "'; base-uri 'none'; form-action 'none'"
)
"""The page may use this style sheet, and nothing else: no script, no image, no request."""
