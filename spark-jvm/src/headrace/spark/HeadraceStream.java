package headrace.spark;

import headrace.spark.ReadableSource.ReadableRange;
import headrace.spark.StreamOffset.SourceOffset;
import headrace.spark.TaskPlan.Place;
import java.util.*;
import java.util.zip.CRC32;
import org.apache.spark.sql.connector.read.*;
import org.apache.spark.sql.connector.read.streaming.*;
import org.apache.spark.sql.types.StructType;
import org.slf4j.LoggerFactory;

import static java.nio.charset.StandardCharsets.UTF_8;

/**
 * A stream: its offsets live in Spark's checkpoint, its pin in the broker.
 *
 * <p>Spark does not note where a stream began until the first batch is done, and asks again when that batch is repeated. So it
 * is the pin that knows. Until the batch is planned it has a provisional name: a pin of the query's own name means that
 * there was a checkpoint.
 */
final class HeadraceStream implements MicroBatchStream, SupportsTriggerAvailableNow, ReportsSourceMetrics {
  private static final long PATIENCE_MS = 60_000;
  private final ReadOptions options;
  private final StructType schema;
  private final Broker broker;
  private TreeMap<String, ReadableSource> seen = new TreeMap<>(); // the sources as they were last
  private StreamOffset target; // of availableNow
  private boolean isAgain, isPlanned; // there is a pin, so the first batch must be in the checkpoint
  private StreamOffset pinned; // from where on, as far as we know

  HeadraceStream(ReadOptions options, StructType schema) {
    this.options = options;
    this.schema = schema;
    broker = new Broker(options, PATIENCE_MS);
  }

  // -- offsets ----------------------------------------------------------------------------------

  @Override
  public Offset initialOffset() {
    String query = options.group() != null ? options.group() : "spark-" + UUID.randomUUID().toString().replace("-", "").substring(0, 12);
    if (options.group() != null) {
      StreamOffset known = broker.pinned(query);
      isAgain = known != null;
      if (known == null) known = broker.pinned(provisional(query));
      if (known != null) return new StreamOffset(query, known.sources);
    }
    var sources = broker.sources(options.start().timeMs());
    var begin = offset(query, sources, TaskPlan.resolve(options.start(), sources.values(), options.failOnDataLoss()));
    broker.pin(new StreamOffset(provisional(query), begin.sources));
    return begin;
  }

  /** Of this source only: a query may read several under one name. */
  private String provisional(String query) {
    var crc = new CRC32();
    crc.update((options.kind() + "," + String.join(",", options.names())).getBytes(UTF_8));
    return String.format("%s.new-%08x", query, crc.getValue());
  }

  @Override
  public ReadLimit getDefaultReadLimit() {
    return options.maxRows() == Long.MAX_VALUE ? ReadLimit.allAvailable() : ReadLimit.maxRows(options.maxRows());
  }

  @Override
  public Offset latestOffset(Offset start, ReadLimit limit) {
    StreamOffset begin = StreamOffset.parse(start.json());
    if (isAgain && !isPlanned) {
      throw SparkError.checkpointLost("messages are pinned for '" + begin.query + "' by an earlier run, but the checkpoint is new. "
          + "Restore the old checkpoint; or, to start from the beginning, choose another group or remove the pin (headrace pin delete "
          + begin.query + ")");
    }
    begin = checked(begin);
    var starts = starts(begin);
    var ends = ends(seen);
    if (target != null) {
      ends.replaceAll((place, end) -> {
        SourceOffset known = target.sources.get(place.source());
        return known == null ? 0 : Math.min(end, known.next().getOrDefault(place.partition(), 0L));
      });
    }
    long room = limit instanceof ReadMaxRows most ? most.maxRows() : Long.MAX_VALUE;
    var finish = offset(begin.query, seen, TaskPlan.admit(seen.values(), starts, ends, room));
    if (target != null && isPlanned && finish.isAt(begin.sources)) finished(begin);
    return finish;
  }

  /**
   * A finite query is done, and its last batch in the commit log: Spark asks for more only then, and commits no more. A pin
   * that was moved meanwhile belongs to another reader of the query too, which may be behind.
   */
  private void finished(StreamOffset end) {
    StreamOffset known = broker.pinned(end.query);
    if (known != null && pinned != null && known.isAt(pinned.sources)) commit(end);
  }

  @Override public Offset latestOffset() { throw new UnsupportedOperationException("latestOffset(Offset, ReadLimit) is called instead"); }
  @Override public Offset reportLatestOffset() { return seen.isEmpty() ? null : offset("", seen, ends(seen)); }

  @Override
  public void prepareForTriggerAvailableNow() {
    var sources = broker.sources(null);
    target = offset("", sources, ends(sources));
  }

  @Override public Offset deserializeOffset(String json) { return StreamOffset.parse(json); }

  /** The lag: messages that are there and not read. */
  @Override
  public Map<String, String> metrics(Optional<Offset> consumed) {
    if (consumed.isEmpty() || seen.isEmpty()) return Map.of();
    var at = StreamOffset.parse(consumed.get().json());
    long lag = 0;
    for (var one : ends(seen).entrySet()) {
      SourceOffset known = at.sources.get(one.getKey().source());
      Long next = known == null ? null : known.next().get(one.getKey().partition());
      lag += next == null ? 0 : Math.max(0, one.getValue() - next);
    }
    return Map.of("lag", String.valueOf(lag));
  }

  // -- batches ----------------------------------------------------------------------------------

  @Override
  public InputPartition[] planInputPartitions(Offset start, Offset end) {
    StreamOffset begin = StreamOffset.parse(start.json()), finish = StreamOffset.parse(end.json());
    if (!isPlanned) begin = planned(begin, finish.query);
    begin = checked(begin);
    finish = stillThere(finish);
    var starts = starts(begin);
    if (options.failOnDataLoss()) checkComplete(starts, finish);
    var ends = new TreeMap<Place, Long>();
    finish.sources.forEach((name, one) -> one.next().forEach((partition, at) -> ends.put(new Place(name, partition), at)));
    return TaskPlan.tasks(starts, ends, seen, finish.sources, options.rowsPerTask());
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    return new HeadraceScan.Readers(broker.withCondition(), schema, true, Long.MAX_VALUE);
  }

  /** Where the first batch of this run begins. It is in the checkpoint: the pin is final. */
  private StreamOffset planned(StreamOffset begin, String query) {
    isPlanned = true;
    String provisional = provisional(query);
    if (!begin.query.equals(query)) { // the very first batch, repeated by a run that had generated a name
      StreamOffset known = broker.pinned(query);
      if (known == null) known = broker.pinned(provisional);
      if (known == null) {
        throw SparkError.dataLost("the pin of '" + query + "' is gone, so the start of the stream is unknown. Start with a new checkpoint");
      }
      broker.unpin(provisional(begin.query));
      begin = known;
    }
    begin = checked(new StreamOffset(query, begin.sources));
    commit(begin);
    broker.unpin(provisional);
    return begin;
  }

  /** Where to go on; {@code seen} has the sources as they are. A missing or another one is an error, never a fresh start. */
  private StreamOffset checked(StreamOffset begin) {
    seen = broker.sources(null);
    begin.sources.forEach((name, known) -> {
      ReadableSource found = seen.get(name);
      if (found == null || !found.uuid().equals(known.uuid())) {
        throw SparkError.sourceChanged(options.kind() + " '" + name + "' was deleted" + (found == null ? "" : " and created again")
            + " since the last batch: the messages of the checkpoint no longer exist. Start with a new checkpoint");
      }
    });
    return stillThere(begin);
  }

  /** The position, if the sources have what was read up to it; without failOnDataLoss it is set back to where that ends. */
  private StreamOffset stillThere(StreamOffset position) {
    var found = new TreeMap<String, SourceOffset>();
    position.sources.forEach((name, known) -> {
      var next = new TreeMap<>(known.next());
      lost(seen.get(name), known).forEach((partition, at) -> {
        String text = "'" + name + "' partition " + partition + ": messages up to offset " + (known.next().get(partition) - 1)
            + " were read, but the broker no longer has them: it was restored from a backup, or has lost messages, and assigns these "
            + "offsets again. failOnDataLoss=false continues";
        if (options.failOnDataLoss()) throw SparkError.dataLost(text);
        LoggerFactory.getLogger(HeadraceStream.class).warn("{} at offset {}", text, at);
        next.put(partition, at);
      });
      found.put(name, new SourceOffset(known.uuid(), next, known.epochs()));
    });
    return new StreamOffset(position.query, found);
  }

  /** The partitions of which more was read than is there, and where to go on in them. */
  private static Map<Integer, Long> lost(ReadableSource source, SourceOffset known) {
    var found = new TreeMap<Integer, Long>();
    if (source == null) return found;
    known.epochs().keySet().forEach(one -> {
      if (known.next().getOrDefault(one, 0L) > 0 && !source.epochs().containsKey(one)) found.put(one, 0L);
    });
    source.epochs().keySet().forEach(partition -> {
      ReadableRange there = source.ranges().get(partition);
      Long epoch = known.epochs().get(partition), end = epoch == null ? null : source.endOfEpoch(partition, epoch);
      if (known.next().getOrDefault(partition, 0L) > (end == null ? there.end() : end)) {
        found.put(partition, Math.max(there.first(), end == null ? 0 : end));
      }
    });
    return found;
  }

  private void checkComplete(Map<Place, Long> starts, StreamOffset finish) {
    seen.forEach((name, one) -> one.ranges().forEach((partition, there) -> {
      long start = starts.get(new Place(name, partition));
      SourceOffset wanted = finish.sources.get(name);
      long lost = Math.min(there.complete(), wanted == null ? start : wanted.next().getOrDefault(partition, start));
      if (start < lost) {
        throw SparkError.dataLost("'" + name + "' partition " + partition + ": offsets " + start + " to " + (lost - 1)
            + " are gone, removed by retention or acknowledged while no pin kept them. failOnDataLoss=false continues without them");
      }
    }));
  }

  /** Everything before {@code end} is in the sink: the broker need not hold it for the query. */
  @Override
  public void commit(Offset end) {
    StreamOffset position = StreamOffset.parse(end.json());
    try {
      broker.pin(position);
      pinned = position;
    } catch (SparkError error) {
      // A position that the broker does not have: the plan of the next batch sets it back.
      if (options.failOnDataLoss() || !error.isDataLost) throw error;
    }
  }

  @Override public void stop() {}
  @Override public String toString() { return "headrace " + options.kind() + " " + String.join(",", options.names()); }

  // -- offsets by place -------------------------------------------------------------------------

  /** A partition or source that is new begins at its first offset. */
  private Map<Place, Long> starts(StreamOffset begin) {
    var found = new TreeMap<Place, Long>();
    seen.forEach((name, one) -> one.ranges().forEach((partition, there) -> {
      SourceOffset known = begin.sources.get(name);
      found.put(new Place(name, partition), known == null ? there.first() : known.next().getOrDefault(partition, there.first()));
    }));
    return found;
  }

  private static TreeMap<Place, Long> ends(Map<String, ReadableSource> sources) {
    var found = new TreeMap<Place, Long>();
    sources.forEach((name, one) -> one.ranges().forEach((partition, there) -> found.put(new Place(name, partition), there.end())));
    return found;
  }

  private static StreamOffset offset(String query, Map<String, ReadableSource> sources, Map<Place, Long> offsets) {
    var found = new TreeMap<String, SourceOffset>();
    sources.forEach((name, one) -> {
      var next = new TreeMap<Integer, Long>();
      one.ranges().keySet().forEach(partition -> next.put(partition, offsets.get(new Place(name, partition))));
      found.put(name, new SourceOffset(one.uuid(), next, one.currentEpochs()));
    });
    return new StreamOffset(query, found);
  }
}
