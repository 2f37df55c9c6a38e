package headrace.spark;

import java.util.Map;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** The data source {@code headrace}; what it does not read itself is read in Python. */
public final class HeadraceProvider implements TableProvider, DataSourceRegister {
  private PythonDataSourceV2 python;

  @Override
  public String shortName() {
    return "headrace";
  }

  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    return python().inferSchema(options);
  }

  @Override
  public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> options) {
    return python().getTable(schema, partitioning, options);
  }

  @Override
  public boolean supportsExternalMetadata() {
    return true;
  }

  private PythonDataSourceV2 python() {
    if (python == null) {
      python = new PythonDataSourceV2();
      python.setShortName("headrace-python");
    }
    return python;
  }
}
