package crash

import (
	"flag"
	"os"
	"testing"
	"time"

	"kube-vmap/integration/daemon"
)

var (
	kills    = flag.Int("kills", 16, "how often the proxy is killed")
	duration = flag.Duration("soak", 6*time.Second, "how long Services change beside others")
	seed     = flag.Uint64("seed", 1, "of all that is random")
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(daemon.Main(m))
}

// patience is the timeout of what must happen.
const patience = 2 * time.Minute
