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
	// large is how many endpoints the Service has that does not fit.
	large = 6000
	// limits is how many limits are tried; first is the first, and the next one is by
	// step more, or twice that less. The step becomes half of it, and never less than
	// smallest.
	limits                = 12
	first, step, smallest = 40 << 20, 4 << 20, 1 << 20
	// tries is how long a proxy may go on that finds no way.
	tries = 4 * time.Second
)

// TestWithoutMemoryTheStateIsWhole gives the proxy less memory than a large
// Service needs. What the kernel keeps for a process counts as that process's, and
// is at its most at the end of a batch: by staying near the limit that is just
// enough, some tries come to their end in the middle of one.
func TestWithoutMemoryTheStateIsWhole(t *testing.T) {
	g := newCgroup(t)
	s := newStageWithLarge(t)
	load := s.ask(t)
	ends := map[string]int{}
	limit, by := first, step
	for range limits {
		t.Run(fmt.Sprintf("%d KiB", limit>>10), func(t *testing.T) {
			end := s.starve(t, g, limit)
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
	t.Logf("about %d KiB are enough; what came of limits: %v", limit>>10, ends)
	if limits-ends[done] < 2 {
		t.Error("the limits were hardly ever met")
	}
	s.goBack(t)
	s.write()
	s.launch(t, g.by()...).AwaitMessage("ready")
	s.settles(t)
	load.Stop(t, 100)
}

// newStageWithLarge is a stage whose versions are: the Services that stay by
// themselves; a large one beside them.
func newStageWithLarge(t *testing.T) *stage {
	t.Helper()
	s := newStage(t, 0, quiet...)
	s.versions = []version{{text: []byte(noServices), meaning: s.without}, s.largeVersion(t)}
	s.folder.Write("churning", s.versions[0].text)
	return s
}

// largeVersion is a Service with more endpoints than there is memory for.
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
	service := daemon.Service{Number: stay + churn + 1}
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
			fmt.Fprintf(&text, "- {addresses: [%q], nodeName: node-2}\n", invented(f, i))
		}
	}
	return version{text.Bytes(), s.leadsTo(t, newScratch(t), text.Bytes())}
}

// quiet keeps the text of a large batch out of the log, which would take more
// memory than all the rest.
var quiet = []string{"-v", "2"}

// goBack removes the large Service, if it is there.
func (s *stage) goBack(t *testing.T) {
	t.Helper()
	if s.written%2 != 0 {
		s.write()
	}
	s.start(t).Stop()
	s.settles(t)
}

// starve starts the proxy with the large Service and a limit, waits for it to be
// killed, to get ready, or to find no way, checks the state, and tells which it was.
func (s *stage) starve(t *testing.T, g *cgroup, limit int) (end string) {
	t.Helper()
	s.goBack(t)
	g.allow(t, limit)
	defer g.allow(t, 0)
	s.write()
	d := s.launch(t, g.by()...)
	d.Ignore(gaveUp)
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	late := time.After(tries)
	for end == "" {
		select {
		case <-d.Done():
			end = "killed"
		case <-late:
			end = "tried on"
		case <-ticker.C:
			if d.CountMessages("ready") > 0 {
				end = done
			}
		}
	}
	refused := d.CountMessages(gaveUp)
	d.Kill()
	s.whole(t)
	switch {
	case refused > 0:
		end += ", refused by the kernel"
	case end == "killed" && s.found == s.written:
		end += " when the kernel had taken it"
	}
	return end
}

// done is how a start with enough memory ends.
const done = "ready"

// gaveUp is what the proxy tells of a batch that the kernel had no memory for.
const gaveUp = "sync failed"
