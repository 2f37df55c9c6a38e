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
    return new HeadraceTable(options, schema, () -> python().getTable(schema, partitioning, given));
  }

  static StructType schema(ReadOptions options) {
    return new StructType(options.columns().stream().map(ReadOptions.SCHEMA::apply).toArray(StructField[]::new));
  }

  private PythonDataSourceV2 python() {
    if (python == null) {
      python = new PythonDataSourceV2();
      python.setShortName("headrace-python");
    }
    return python;
  }

  /** Queues or topics of a broker as a table. */
  record HeadraceTable(ReadOptions options, StructType given, java.util.function.Supplier<Table> python)
      implements SupportsRead, SupportsWrite {
    @Override public String name() { return "headrace " + options.kind() + " " + String.join(",", options.names()); }

    @Override
    public Column[] columns() {
      return Arrays.stream(given.fields()).map(one -> Column.create(one.name(), one.dataType(), one.nullable())).toArray(Column[]::new);
    }

    @Override
    public Set<TableCapability> capabilities() {
      return EnumSet.of(TableCapability.BATCH_READ, TableCapability.MICRO_BATCH_READ, TableCapability.BATCH_WRITE,
          TableCapability.STREAMING_WRITE, TableCapability.TRUNCATE);
    }

    @Override
    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap more) {
      if (new Broker(options, 0).hasDatabaseTopics()) return ((SupportsRead) python.get()).newScanBuilder(more);
      return new HeadraceScan(options, HeadraceProvider.schema(options));
    }

    @Override public WriteBuilder newWriteBuilder(LogicalWriteInfo info) { return ((SupportsWrite) python.get()).newWriteBuilder(info); }
  }
}
