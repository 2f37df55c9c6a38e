package headrace.spark;

import java.util.Set;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.unsafe.types.UTF8String;

/** The columns that a kind of destination reads from the contents of its messages. */
interface ContentColumns {
  ColumnVector column(String name);

  /** Another batch begins. */
  void reset();

  /** Whether the fields of fixed size are there and the lengths in them fit; {@code there}: how much of the content is. */
  boolean isWhole(long content, int length, int there);

  boolean hasTag(int row, Set<UTF8String> tags);
}
