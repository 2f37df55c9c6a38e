package headrace.spark;

import java.util.*;

/** A queue or topic as far as it can be read by offset; all mappings are by partition. */
record ReadableSource(String name, String uuid, TreeMap<Integer, ReadableRange> ranges, TreeMap<Integer, List<long[]>> epochs,
    boolean isInDatabase) {

  /** Offsets first .. end - 1; below {@code complete} some may be missing. {@code atTime}: the first stored then or later. */
  record ReadableRange(String priority, long first, long complete, long end, Long atTime) {}

  static ReadableSource of(Map<?, ?> row) {
    var ranges = new TreeMap<Integer, ReadableRange>();
    for (Object one : (List<?>) row.get("parts")) {
      var part = (List<?>) one; // priority, partition, first, complete, end, first time, last time, at time
      ranges.put(((Long) part.get(1)).intValue(), new ReadableRange((String) part.get(0), (Long) part.get(2),
          (Long) part.get(3), (Long) part.get(4), (Long) part.get(7)));
    }
    var epochs = new TreeMap<Integer, List<long[]>>();
    if (row.get("epochs") instanceof Map<?, ?> known) {
      known.forEach((partition, list) -> {
        var found = new ArrayList<long[]>();
        for (Object one : (List<?>) list) found.add(((List<?>) one).stream().mapToLong(n -> (Long) n).toArray());
        epochs.put(Integer.valueOf((String) partition), found);
      });
    }
    return new ReadableSource((String) row.get("name"), (String) row.get("uuid"), ranges, epochs, row.containsKey("gap"));
  }

  /** The current epoch of each partition. */
  TreeMap<Integer, Long> currentEpochs() {
    var found = new TreeMap<Integer, Long>();
    epochs.forEach((partition, known) -> found.put(partition, known.isEmpty() ? 0 : known.get(known.size() - 1)[0]));
    return found;
  }

  /** Behind the last offset that means the same message to a reader from that epoch; null while the epoch lasts. */
  Long endOfEpoch(int partition, long number) {
    var known = epochs.get(partition);
    int place = number == 0 ? 0 : -1;
    for (int i = 0; i < known.size() && place < 0; i++) {
      if (known.get(i)[0] == number) place = i + 1;
    }
    if (place < 0) return known.isEmpty() ? 0L : known.get(0)[1]; // of another copy of the log
    return place < known.size() ? known.get(place)[1] : null;
  }
}
