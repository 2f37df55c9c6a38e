package headrace.spark;

import headrace.spark.ReadOptions.OffsetLimit;
import headrace.spark.StreamOffset.SourceOffset;
import headrace.spark.TaskPlan.*;
import java.time.Instant;
import java.util.*;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.expressions.*;
import org.apache.spark.sql.connector.expressions.aggregate.*;
import org.apache.spark.sql.connector.read.*;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.sources.*;
import org.apache.spark.sql.types.*;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/** A read as Spark plans it: which columns, which offsets, how many rows; or a count that needs no rows. */
final class HeadraceScan implements Scan, Batch, SupportsReportStatistics, SupportsPushDownRequiredColumns,
    SupportsPushDownFilters, SupportsPushDownLimit, SupportsPushDownAggregates {
  private static final Set<String> NEVER_NULL = Set.of("source", "partition", "offset", "timestamp", "priority", "exchange",
      "routing_key", "properties", "body");
  private final ReadOptions options;
  private final Broker broker;
  private final List<Filter> pushed = new ArrayList<>();
  private StructType schema;
  private Set<Integer> partitions; // null: all
  private long low = 0, high = Long.MAX_VALUE, limit = Long.MAX_VALUE;
  private Long sinceMs, untilMs;
  private AggregateFunc[] aggregates;
  private InputPartition[] tasks;

  HeadraceScan(ReadOptions options, StructType schema) {
    this.options = options;
    this.schema = schema;
    broker = new Broker(options, 0);
  }

  // -- what Spark pushes down -------------------------------------------------------------------

  @Override public void pruneColumns(StructType required) { schema = required; }

  @Override
  public boolean pushLimit(int rows) {
    limit = rows;
    return true;
  }

  @Override public boolean isPartiallyPushed() { return true; } // each task reads that many

  @Override
  public Filter[] pushFilters(Filter[] filters) {
    return Arrays.stream(filters).filter(one -> !narrow(one)).toArray(Filter[]::new);
  }

  @Override public Filter[] pushedFilters() { return pushed.toArray(Filter[]::new); }

  /** Whether Spark need not look at the filter again. Rows of a time have neighbours in the same record: it has to. */
  private boolean narrow(Filter filter) {
    boolean isExact = true;
    if (filter instanceof IsNotNull one && NEVER_NULL.contains(one.attribute())) {
      // nothing to leave out
    } else if (filter instanceof EqualTo one && one.attribute().equals("partition")) {
      keepPartitions(Set.of((Integer) one.value()));
    } else if (filter instanceof In one && one.attribute().equals("partition")) {
      var wanted = new HashSet<Integer>();
      for (Object value : one.values()) wanted.add((Integer) value);
      keepPartitions(wanted);
    } else if (filter instanceof EqualTo one) {
      isExact = between(one.attribute(), one.value(), 0, true, true);
    } else if (filter instanceof GreaterThan one) {
      isExact = between(one.attribute(), one.value(), 1, true, false);
    } else if (filter instanceof GreaterThanOrEqual one) {
      isExact = between(one.attribute(), one.value(), 0, true, false);
    } else if (filter instanceof LessThan one) {
      isExact = between(one.attribute(), one.value(), -1, false, true);
    } else if (filter instanceof LessThanOrEqual one) {
      isExact = between(one.attribute(), one.value(), 0, false, true);
    } else {
      return false;
    }
    if (isExact) pushed.add(filter);
    return isExact;
  }

  private void keepPartitions(Set<Integer> wanted) {
    if (partitions == null) partitions = new HashSet<>(wanted);
    partitions.retainAll(wanted);
  }

  /** From value + step on, up to value + step, or both. */
  private boolean between(String column, Object value, int step, boolean from, boolean upTo) {
    if (column.equals("offset")) {
      long at = saturated((Long) value, step);
      if (from) low = Math.max(low, at);
      if (upTo) high = Math.min(high, saturated(at, 1));
      return true;
    }
    if (column.equals("timestamp")) {
      Instant time = value instanceof Instant found ? found : ((java.sql.Timestamp) value).toInstant();
      long us = Math.addExact(Math.multiplyExact(time.getEpochSecond(), 1_000_000), time.getNano() / 1000) + step;
      if (from) sinceMs = Math.max(sinceMs == null ? 1 : sinceMs, Math.floorDiv(us + 999, 1000));
      if (upTo) untilMs = Math.max(1, Math.min(untilMs == null ? Long.MAX_VALUE : untilMs, Math.floorDiv(us, 1000) + 1));
    }
    return false;
  }

  private static long saturated(long value, int step) {
    long found = value + step;
    return step > 0 && found < value ? Long.MAX_VALUE : step < 0 && found > value ? Long.MIN_VALUE : found;
  }

  // -- counts -----------------------------------------------------------------------------------

  @Override
  public boolean supportCompletePushDown(Aggregation wanted) {
    boolean isPlain = wanted.groupByExpressions().length == 0 && options.tags() == null && options.selector() == null && sinceMs == null && untilMs == null;
    return isPlain && Arrays.stream(wanted.aggregateExpressions()).allMatch(HeadraceScan::isCounted);
  }

  private static boolean isCounted(AggregateFunc one) {
    if (one instanceof CountStar) return true;
    if (one instanceof Count count) return !count.isDistinct() && NEVER_NULL.contains(name(count.column()));
    return one instanceof Min min && name(min.column()).equals("offset") || one instanceof Max max && name(max.column()).equals("offset");
  }

  private static String name(Expression column) {
    return column instanceof NamedReference one && one.fieldNames().length == 1 ? one.fieldNames()[0] : "";
  }

  @Override
  public boolean pushAggregation(Aggregation wanted) {
    if (!supportCompletePushDown(wanted)) return false;
    aggregates = wanted.aggregateExpressions();
    return true;
  }

  /** Counts and ends from the broker's index: no record is read. */
  private record CountScan(HeadraceScan scan) implements LocalScan {
    @Override
    public StructType readSchema() {
      return new StructType(Arrays.stream(scan.aggregates)
          .map(one -> new StructField(one.toString(), DataTypes.LongType, true, Metadata.empty())).toArray(StructField[]::new));
    }

    @Override public String description() { return scan.description() + " (from the index)"; }

    @Override
    public InternalRow[] rows() {
      long[] found = scan.broker.count(scan.planInputPartitions());
      return new InternalRow[] {new GenericInternalRow(Arrays.stream(scan.aggregates).map(one ->
          one instanceof Min ? found[0] == 0 ? null : (Object) found[1] : one instanceof Max ? found[0] == 0 ? null : (Object) found[2]
          : (Object) found[0]).toArray())};
    }
  }

  // -- the scan ---------------------------------------------------------------------------------

  @Override public Scan build() { return aggregates == null ? this : new CountScan(this); }
  @Override public StructType readSchema() { return schema; }
  @Override public String description() { return "headrace " + options.kind() + " " + String.join(",", options.names()) + ", read in the JVM"; }
  @Override public Batch toBatch() { return this; }
  @Override public MicroBatchStream toMicroBatchStream(String checkpoint) { return new HeadraceStream(options, schema); }

  @Override
  public Statistics estimateStatistics() {
    long rows = 0;
    for (InputPartition one : planInputPartitions()) rows += ((ReadTask) one).end() - ((ReadTask) one).start();
    long counted = rows, width = schema.defaultSize() + (Arrays.asList(schema.fieldNames()).contains("body") ? 1000 : 0);
    return new Statistics() {
      @Override public OptionalLong sizeInBytes() { return OptionalLong.of(Math.max(1, counted * width)); }
      @Override public OptionalLong numRows() { return OptionalLong.of(counted); }
    };
  }

  /** Everything between the two limits, as it is when the query is planned. */
  @Override
  public InputPartition[] planInputPartitions() {
    if (tasks != null) return tasks;
    OffsetLimit start = options.start(), end = options.end();
    var sources = broker.sources(start.timeMs());
    var later = end.timeMs() == null ? sources : broker.sources(end.timeMs());
    var starts = TaskPlan.resolve(start, sources.values(), options.failOnDataLoss());
    var ends = TaskPlan.resolve(end, later.values(), false);
    ends.keySet().removeIf(one -> !starts.containsKey(one) || partitions != null && !partitions.contains(one.partition()));
    atTime(sinceMs).forEach((place, at) -> starts.merge(place, at, Math::max));
    var until = atTime(untilMs);
    ends.replaceAll((place, at) -> Math.max(0, Math.min(high, Math.min(at, until.getOrDefault(place, at)))));
    starts.replaceAll((place, at) -> Math.max(low, at));
    var known = new TreeMap<String, SourceOffset>();
    later.forEach((name, one) -> known.put(name, new SourceOffset(one.uuid(), new TreeMap<>(), one.currentEpochs())));
    return tasks = TaskPlan.tasks(starts, ends, later, known, options.rowsPerTask());
  }

  private Map<Place, Long> atTime(Long timeMs) {
    return timeMs == null ? Map.of() : TaskPlan.resolve(new OffsetLimit(0, Map.of(), timeMs), broker.sources(timeMs).values(), false);
  }

  @Override public PartitionReaderFactory createReaderFactory() { return new Readers(broker.withCondition(), schema, false, limit); }

  /** Makes the readers of tasks; it travels to executors. */
  record Readers(ReadOptions options, StructType schema, boolean isStream, long limit) implements PartitionReaderFactory {
    @Override public boolean supportColumnarReads(InputPartition task) { return true; }
    @Override public PartitionReader<InternalRow> createReader(InputPartition task) { throw new UnsupportedOperationException(); }

    @Override
    public PartitionReader<ColumnarBatch> createColumnarReader(InputPartition task) {
      return new MessageReader(options, (ReadTask) task, schema, isStream, limit);
    }
  }
}
