package headrace.spark;

/**
 * An error of the data source; it shows under the name that the same error has in Python. Of an IllegalArgumentException
 * PySpark shows the text only, without the stack of the JVM.
 */
final class SparkError extends IllegalArgumentException {
  private static final long serialVersionUID = 1;
  final String kind;
  String refusal; // what the broker has answered, or null

  private SparkError(String kind, String text) {
    super("headrace.spark.errors." + kind + ": " + text);
    this.kind = kind;
  }

  static SparkError of(String text) {
    return new SparkError("SparkError", text);
  }

  /** An option cannot be used. */
  static SparkError badOption(String text) {
    return new SparkError("BadOption", text);
  }

  /** Messages that had to be read are gone. */
  static SparkError dataLost(String text) {
    return new SparkError("DataLost", text);
  }

  /** A queue or topic was deleted, or deleted and created again. */
  static SparkError sourceChanged(String text) {
    return new SparkError("SourceChanged", text);
  }

  /** A query starts without the checkpoint of an earlier run. */
  static SparkError checkpointLost(String text) {
    return new SparkError("CheckpointLost", text);
  }

  /** A refusal of the broker, by its code. */
  static SparkError refused(String code, String text) {
    SparkError found = switch (code) {
      case "data_lost" -> dataLost(text);
      case "source_changed" -> sourceChanged(text);
      default -> of(code + ": " + text);
    };
    found.refusal = text;
    return found;
  }

  boolean isDataLost() {
    return kind.equals("DataLost");
  }

  @Override public String toString() { return getMessage(); }
}
