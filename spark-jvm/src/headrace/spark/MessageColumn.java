package headrace.spark;

import java.util.Arrays;
import org.apache.spark.sql.types.*;
import org.apache.spark.sql.vectorized.*;
import org.apache.spark.unsafe.types.UTF8String;

/** A column of a batch whose values are read from the records when they are used. */
abstract class MessageColumn extends ColumnVector {
  MessageColumn(DataType type) {
    super(type);
  }

  /** The same text in every row; null is no text. */
  static MessageColumn constant(String text) {
    UTF8String value = UTF8String.fromString(text);
    return new MessageColumn(DataTypes.StringType) {
      @Override public boolean isNullAt(int row) { return value == null; }
      @Override public UTF8String getUTF8String(int row) { return value; }
    };
  }

  /** Names and values of the properties of all rows of a batch, made when the first is used. */
  static final class Properties extends MessageColumn {
    private final Runnable fill;
    private final TextList names = new TextList(), values = new TextList();
    private final int[] starts = new int[MessageReader.ROWS + 1];
    private int rows = -1; // that are filled in

    Properties(Runnable fill) {
      super(DataTypes.createMapType(DataTypes.StringType, DataTypes.StringType));
      this.fill = fill;
    }

    void reset() { rows = -1; }

    void add(UTF8String name, UTF8String value) {
      names.add(name);
      values.add(value);
    }

    void endRow() { starts[++rows] = names.size; }

    @Override
    public ColumnarMap getMap(int row) {
      if (rows < 0) {
        names.size = values.size = rows = 0;
        fill.run();
      }
      return new ColumnarMap(names, values, starts[row], starts[row + 1] - starts[row]);
    }
  }

  private static final class TextList extends MessageColumn {
    private UTF8String[] texts = new UTF8String[MessageReader.ROWS];
    private int size;

    TextList() {
      super(DataTypes.StringType);
    }

    void add(UTF8String text) {
      if (size == texts.length) texts = Arrays.copyOf(texts, size * 2);
      texts[size++] = text;
    }

    @Override public UTF8String getUTF8String(int row) { return texts[row]; }
  }

  // -- what a column does not have --------------------------------------------------------------

  @Override public boolean isNullAt(int row) { return false; }
  @Override public boolean hasNull() { return true; } // some rows may be: isNullAt() tells which
  @Override public int numNulls() { return 0; }
  @Override public void close() {}
  @Override public boolean getBoolean(int row) { throw new UnsupportedOperationException(); }
  @Override public byte getByte(int row) { throw new UnsupportedOperationException(); }
  @Override public short getShort(int row) { throw new UnsupportedOperationException(); }
  @Override public int getInt(int row) { throw new UnsupportedOperationException(); }
  @Override public long getLong(int row) { throw new UnsupportedOperationException(); }
  @Override public float getFloat(int row) { throw new UnsupportedOperationException(); }
  @Override public double getDouble(int row) { throw new UnsupportedOperationException(); }
  @Override public ColumnarArray getArray(int row) { throw new UnsupportedOperationException(); }
  @Override public ColumnarMap getMap(int row) { throw new UnsupportedOperationException(); }
  @Override public Decimal getDecimal(int row, int precision, int scale) { throw new UnsupportedOperationException(); }
  @Override public UTF8String getUTF8String(int row) { throw new UnsupportedOperationException(); }
  @Override public byte[] getBinary(int row) { throw new UnsupportedOperationException(); }
  @Override public ColumnVector getChild(int ordinal) { throw new UnsupportedOperationException(); }
}
