"""A report on a table as one HTML file: facts from its log, advice, and a page that shows them."""
