package headrace.spark;

/**
 * An error of the data source; it shows under the name that the same error has in Python. Of an IllegalArgumentException
 * PySpark shows the text only, without the stack of the JVM.
 */
final class SparkError extends IllegalArgumentException {
  private static final long serialVersionUID = 1;
  final boolean isDataLost;
  final String refusal; // what the broker has answered, or null

  private SparkError(String kind, String text, String refusal) {
    super("headrace.spark.errors." + kind + ": " + text);
    this.isDataLost = kind.equals("DataLost");
    this.refusal = refusal;
  }

  static SparkError of(String text) { return new SparkError("SparkError", text, null); }
  /** An option cannot be used. */
  static SparkError badOption(String text) { return new SparkError("BadOption", text, null); }
  /** Messages that had to be read are gone. */
  static SparkError dataLost(String text) { return new SparkError("DataLost", text, null); }
  /** A queue or topic was deleted, or deleted and created again. */
  static SparkError sourceChanged(String text) { return new SparkError("SourceChanged", text, null); }
  /** A query starts without the checkpoint of an earlier run. */
  static SparkError checkpointLost(String text) { return new SparkError("CheckpointLost", text, null); }

  /** A refusal of the broker, by its code. */
  static SparkError refused(String code, String text) {
    return switch (code) {
      case "data_lost" -> new SparkError("DataLost", text, text);
      case "source_changed" -> new SparkError("SourceChanged", text, text);
      default -> new SparkError("SparkError", code + ": " + text, text);
    };
  }

  @Override public String toString() { return getMessage(); }
}
