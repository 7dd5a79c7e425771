package crash

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"kube-vmap/integration/daemon"
	"kube-vmap/model"
)

const (
	// large is the number of endpoints of a Service that needs too much memory.
	large = 6000
	// limits is how many limits are tried, beginning with first. The next limit is a step
	// more, or two steps less. The step is halved each time, down to smallest.
	limits                = 12
	first, step, smallest = 40 << 20, 4 << 20, 1 << 20
	// tries is how long a proxy that does not succeed may retry.
	tries = 4 * time.Second
)

// TestOutOfMemory gives the proxy less memory than a large Service needs. Kernel memory
// counts as the process's own, and is highest at the end of a batch: with limits near the
// smallest sufficient one, some attempts fail in the middle of a batch.
func TestOutOfMemory(t *testing.T) {
	g := newCgroup(t)
	s := newStageWithLarge(t)
	load := s.startClients(t)
	ends := map[string]int{}
	limit, by := first, step
	for range limits {
		t.Run(fmt.Sprintf("%d KiB", limit>>10), func(t *testing.T) {
			end := s.startWithLimit(t, g, limit)
			if ends[end]++; end == done {
				limit -= 2 * by
			} else {
				limit += by
			}
		})
		by = max(by/2, smallest)
		if t.Failed() {
			break
		}
	}
	t.Logf("about %d KiB are enough; results: %v", limit>>10, ends)
	if limits-ends[done] < 2 {
		t.Error("the limits were hardly ever reached")
	}
	s.goBack(t)
	s.write()
	s.launch(t, g.by()...).AwaitMessage("ready")
	s.awaitVersion(t)
	load.Stop(t, 100)
}

// newStageWithLarge returns a stage of two versions: the stable Services only, and with a
// large one.
func newStageWithLarge(t *testing.T) *stage {
	t.Helper()
	s := newStage(t, 0, quiet...)
	s.versions = []version{{text: []byte(noServices), tables: s.without}, s.largeVersion(t)}
	s.folder.Write("churning", s.versions[0].text)
	return s
}

// largeVersion returns the version with the large Service.
func (s *stage) largeVersion(t *testing.T) version {
	t.Helper()
	var text bytes.Buffer
	ports := func(format string) {
		text.WriteString("ports: [")
		for _, p := range []string{"tcp", "udp", "sctp"} {
			fmt.Fprintf(&text, format, p, strings.ToUpper(p))
		}
		text.WriteString("]")
	}
	service := daemon.Service{Number: stable + churn + 1}
	fmt.Fprintf(&text, "apiVersion: v1\nkind: Service\nmetadata: {namespace: default, name: large}\nspec: {clusterIP: %s, clusterIPs: [%[1]s, %q], ",
		service.Addr(model.IPv4, model.KindClusterIP), service.Addr(model.IPv6, model.KindClusterIP).String())
	ports("{name: %s, protocol: %s, port: 80},")
	text.WriteString("}\n")
	for _, f := range model.Families {
		fmt.Fprintf(&text, "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {namespace: default, name: large-%d, "+
			"labels: {kubernetes.io/service-name: large}}\naddressType: %s\n", f, f)
		ports("{name: %s, protocol: %s, port: 8080},")
		text.WriteString("\nendpoints:\n")
		for i := range large {
			fmt.Fprintf(&text, "- {addresses: [%q], nodeName: node-2}\n", unusedAddr(f, i))
		}
	}
	return version{text.Bytes(), s.tablesOf(t, newScratch(t), text.Bytes())}
}

// quiet keeps the text of large batches out of the log, which would need more memory than
// everything else.
var quiet = []string{"-v", "2"}

// goBack removes the large Service, if it exists.
func (s *stage) goBack(t *testing.T) {
	t.Helper()
	if s.written%2 != 0 {
		s.write()
	}
	s.start(t).Stop()
	s.awaitVersion(t)
}

// startWithLimit starts the proxy with the large Service and a memory limit, waits until it
// is killed, ready, or has retried for long, checks the kernel, and returns which it was.
func (s *stage) startWithLimit(t *testing.T, g *cgroup, limit int) (end string) {
	t.Helper()
	s.goBack(t)
	g.allow(t, limit)
	defer g.allow(t, 0)
	s.write()
	d := s.launch(t, g.by()...)
	d.Ignore(syncFailed)
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	late := time.After(tries)
	for end == "" {
		select {
		case <-d.Done():
			end = "killed"
		case <-late:
			end = "retried"
		case <-ticker.C:
			if d.CountMessages("ready") > 0 {
				end = done
			}
		}
	}
	refused := d.CountMessages(syncFailed)
	d.Kill()
	s.checkKernel(t)
	switch {
	case refused > 0:
		end += ", refused by the kernel"
	case end == "killed" && s.found == s.written:
		end += " after the commit"
	}
	return end
}

// done is the result of a start with enough memory.
const done = "ready"

// syncFailed is the log message about a batch for which the kernel had no memory.
const syncFailed = "sync failed"
