// Reads managed tables with the catalog client of Delta's Java kernel, which shares no code with txlog. Each line of the
// input names a table, and is answered by a line: its version, then the first column of each row. With a fifth value the
// program also sets that property, as a commit of its own. The values of a line are separated by tabs:
//
// SERVER CATALOG.SCHEMA.TABLE TABLE_ID LOCATION [PROPERTY]
//
// java -cp JARS ManagedTable.java

import io.delta.kernel.Operation;
import io.delta.kernel.Scan;
import io.delta.kernel.Snapshot;
import io.delta.kernel.data.ColumnarBatch;
import io.delta.kernel.data.FilteredColumnarBatch;
import io.delta.kernel.data.Row;
import io.delta.kernel.defaults.engine.DefaultEngine;
import io.delta.kernel.engine.Engine;
import io.delta.kernel.engine.FileReadResult;
import io.delta.kernel.internal.InternalScanFileUtils;
import io.delta.kernel.internal.data.ScanStateRow;
import io.delta.kernel.internal.util.Utils;
import io.delta.kernel.types.StructType;
import io.delta.kernel.unitycatalog.UCCatalogManagedClient;
import io.delta.kernel.unitycatalog.UCTableIdentifier;
import io.delta.kernel.utils.CloseableIterable;
import io.delta.kernel.utils.CloseableIterator;
import io.delta.kernel.utils.FileStatus;
import io.delta.storage.commit.uccommitcoordinator.UCDeltaTokenBasedRestClient;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Collectors;
import org.apache.hadoop.conf.Configuration;

public class ManagedTable {
  public static void main(String[] none) throws Exception {
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      System.out.println(answer(line.split("\t")).stream().map(String::valueOf).collect(Collectors.joining(" ")));
    }
  }

  private static List<Long> answer(String[] given) throws Exception {
    Map<String, String> access = Map.of("uri", given[0], "auth.type", "static", "auth.token", "none", "token", "none");
    String[] name = given[1].split("\\.");
    Engine engine = DefaultEngine.create(new Configuration());
    UCCatalogManagedClient catalog =
        new UCCatalogManagedClient(new UCDeltaTokenBasedRestClient(access, Configuration::new));
    UCTableIdentifier table = new UCTableIdentifier(name[0], name[1], name[2]);
    Snapshot snapshot =
        catalog.loadSnapshot(engine, given[2], given[3], table, Optional.empty(), Optional.empty());
    List<Long> answer = new ArrayList<>(List.of(snapshot.getVersion()));
    Scan scan = snapshot.getScanBuilder().build();
    try (CloseableIterator<FilteredColumnarBatch> batches = scan.getScanFiles(engine)) {
      while (batches.hasNext()) {
        try (CloseableIterator<Row> files = batches.next().getRows()) {
          while (files.hasNext()) {
            addRows(engine, scan.getScanState(engine), files.next(), answer);
          }
        }
      }
    }
    if (given.length > 4) {
      snapshot
          .buildUpdateTableTransaction("ManagedTable", Operation.MANUAL_UPDATE)
          .withTablePropertiesAdded(Map.of(given[4], "by the kernel"))
          .build(engine)
          .commit(engine, CloseableIterable.emptyIterable());
    }
    return answer;
  }

  private static void addRows(Engine engine, Row state, Row file, List<Long> answer) throws IOException {
    FileStatus status = InternalScanFileUtils.getAddFileStatus(file);
    StructType columns = ScanStateRow.getPhysicalDataReadSchema(state);
    try (CloseableIterator<FileReadResult> found =
        engine.getParquetHandler().readParquetFiles(Utils.singletonCloseableIterator(status), columns, Optional.empty())) {
      CloseableIterator<ColumnarBatch> batches = found.map(FileReadResult::getData);
      CloseableIterator<FilteredColumnarBatch> kept = Scan.transformPhysicalData(engine, state, file, batches);
      while (kept.hasNext()) {
        try (CloseableIterator<Row> rows = kept.next().getRows()) {
          while (rows.hasNext()) {
            answer.add(rows.next().getLong(0));
          }
        }
      }
    }
  }
}
