"""Run by Python when Spark starts one: takes pyspark from where it is installed.

Spark puts an archive of pyspark in front of PYTHONPATH. It has no compiled modules, so each of the
many processes would compile them, and Spark gives some of them ten seconds to start.
"""

import sys

sys.path[:] = [path for path in sys.path if not path.endswith("/pyspark.zip")]
