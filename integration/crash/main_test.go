package crash

import (
	"flag"
	"os"
	"testing"
	"time"

	"kube-vmap/integration/daemon"
)

var kills = flag.Int("kills", 200, "how often the proxy is killed")

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(daemon.Main(m))
}

// patience is for what must come, and is never used up.
const patience = 20 * time.Second

// eventually looks again and again until try has no objection any more.
func eventually(t *testing.T, what string, try func() error) {
	t.Helper()
	ticker := time.NewTicker(3 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(patience); ; <-ticker.C {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not after %s: %v", what, patience, err)
		}
	}
}
