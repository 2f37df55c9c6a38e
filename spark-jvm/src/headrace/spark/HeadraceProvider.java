package headrace.spark;

import java.util.*;
import org.apache.spark.sql.connector.catalog.*;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.*;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.types.*;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** The data source {@code headrace}; what it does not read itself, and all writes, are done in Python. */
public final class HeadraceProvider implements TableProvider, DataSourceRegister {
  private PythonDataSourceV2 python;

  @Override public String shortName() { return "headrace"; }
  @Override public boolean supportsExternalMetadata() { return true; }

  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    ReadOptions ours = ReadOptions.parse(options);
    return ours == null ? python().inferSchema(options) : schema(ours);
  }

  @Override
  public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> given) {
    ReadOptions options = ReadOptions.parse(new CaseInsensitiveStringMap(given));
    if (options == null) return python().getTable(schema, partitioning, given);
    return new HeadraceTable(options.kind(), String.join(",", options.names()), given, schema, python(), false);
  }

  private static StructType schema(ReadOptions options) {
    return new StructType(options.columns().stream().map(ReadOptions.SCHEMA::apply).toArray(StructField[]::new));
  }

  private PythonDataSourceV2 python() {
    if (python == null) python = newPython();
    return python;
  }

  static PythonDataSourceV2 newPython() {
    var python = new PythonDataSourceV2();
    python.setShortName("headrace-python");
    return python;
  }

  /** Queues or topics of a broker, or an exchange to write to, as a table. */
  record HeadraceTable(String kind, String names, Map<String, String> given, StructType rows, PythonDataSourceV2 python,
      boolean isInCatalog) implements SupportsRead, SupportsWrite {
    @Override public String name() { return "headrace " + kind + " " + names; }

    @Override
    public Column[] columns() {
      return Arrays.stream(rows.fields()).map(one -> Column.create(one.name(), one.dataType(), one.nullable())).toArray(Column[]::new);
    }

    @Override
    public Set<TableCapability> capabilities() {
      var found = EnumSet.noneOf(TableCapability.class);
      boolean isRead = !kind.equals("exchange"), isWritten = !isInCatalog || !kind.equals("queue");
      if (isRead) found.addAll(Set.of(TableCapability.BATCH_READ, TableCapability.MICRO_BATCH_READ));
      if (isWritten) found.addAll(Set.of(TableCapability.BATCH_WRITE, TableCapability.STREAMING_WRITE, TableCapability.TRUNCATE));
      if (isInCatalog) found.add(TableCapability.ACCEPT_ANY_SCHEMA); // of fewer columns; Python checks them
      return found;
    }

    /** The options of a query too. Those of the table hold; one in a catalog always has all columns. */
    private CaseInsensitiveStringMap with(CaseInsensitiveStringMap more) {
      var all = new TreeMap<String, String>(String.CASE_INSENSITIVE_ORDER);
      all.putAll(more);
      if (isInCatalog) all.remove("columns");
      all.putAll(given);
      return new CaseInsensitiveStringMap(all);
    }

    private Table inPython(CaseInsensitiveStringMap options) {
      return python.getTable(rows, new Transform[0], options);
    }

    @Override
    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap more) {
      var all = with(more);
      ReadOptions options = ReadOptions.parse(all);
      if (options == null || new Broker(options, 0).hasDatabaseTopics()) return ((SupportsRead) inPython(all)).newScanBuilder(all);
      return new HeadraceScan(options, HeadraceProvider.schema(options));
    }

    @Override
    public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
      var all = with(info.options());
      return ((SupportsWrite) inPython(all)).newWriteBuilder(new LogicalWriteInfo() {
        @Override public CaseInsensitiveStringMap options() { return all; }
        @Override public String queryId() { return info.queryId(); }
        @Override public StructType schema() { return info.schema(); }
      });
    }
  }
}
