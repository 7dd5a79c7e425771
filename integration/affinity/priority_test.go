package affinity

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"kube-vmap/integration/daemon"
	"kube-vmap/model"
)

// countingTable counts packets whose priority is the number of an endpoint, where they leave
// the node or are received by it.
const countingTable = `table inet priorities {
	counter leaked { }
	counter seen { }
	chain numbers {
		counter name "seen"
		meta priority & f000:0 == f000:0 counter name "leaked"
	}
	chain output { type filter hook output priority 0; ct status dnat jump numbers; }
	chain forward { type filter hook forward priority 0; ct status dnat jump numbers; }
	chain input { type filter hook input priority 0; ct status dnat jump numbers; }
}`

// TestPriorityOfPacketsIsRestored counts packets that are forwarded, and those that the node
// itself sends. For comparison it does so without our rules that restore priorities, too.
func TestPriorityOfPacketsIsRestored(t *testing.T) {
	t.Parallel()
	l, servers := daemon.NewLab(t, 3, 2)
	f := daemon.NewFolder(t, l)
	s := daemon.Service{Name: "web", Number: 1, Endpoints: servers, Affinity: long, Kinds: daemon.Kinds}
	f.Put("web", s)
	d := daemon.Start(t, l.Node, f, "--protect-tables=false")
	nft := func(args ...string) string {
		t.Helper()
		out, err := l.Node.Command(t.Context(), "nft", args...).CombinedOutput()
		if err != nil {
			t.Fatalf("nft %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	nft(countingTable)
	// count connects all kinds of clients, and returns how many packets were seen, and how
	// many of them had a number.
	count := func(t *testing.T, w daemon.Transport) (seen, leaked int) {
		t.Helper()
		nft("reset counters table inet priorities")
		for _, c := range allClients(l, w.Family) {
			onlyEndpoint(t, l, c, w, s, 0)
		}
		for name, n := range map[string]*int{"seen": &seen, "leaked": &leaked} {
			_, after, _ := strings.Cut(nft("list counter inet priorities "+name), "packets ")
			if _, err := fmt.Sscan(after, n); err != nil {
				t.Fatal(err)
			}
		}
		return seen, leaked
	}
	step(t, "with our rules", func(t *testing.T, w daemon.Transport) {
		if seen, leaked := count(t, w); seen == 0 || leaked > 0 {
			t.Errorf("%d of %d packets have the number of an endpoint for priority", leaked, seen)
		}
	})
	d.Stop()
	nft("flush chain ip kube-vmap restore-check; flush chain ip6 kube-vmap restore-check")
	step(t, "without them", func(t *testing.T, w daemon.Transport) {
		if seen, leaked := count(t, w); leaked == 0 {
			t.Errorf("none of %d packets has the number of an endpoint", seen)
		}
	})
}

// TestFirstConnectionsOfAClientGetTheSameEndpoint has new clients with several connections
// at the same time.
func TestFirstConnectionsOfAClientGetTheSameEndpoint(t *testing.T) {
	t.Parallel()
	const connections = 4
	l, servers := daemon.NewLab(t, 4, 2)
	f := daemon.NewFolder(t, l)
	s := daemon.Service{Name: "web", Number: 1, Endpoints: servers, Affinity: long}
	f.Put("web", s)
	daemon.Start(t, l.Node, f)
	daemon.ForEachTransport(t, func(t *testing.T, w daemon.Transport) {
		to := s.AddrPort(l.Node, w.Family, model.KindClusterIP, 0)
		for n := range 100 {
			var by [connections]string
			var group errgroup.Group
			for i := range by {
				group.Go(func() (err error) {
					by[i], err = ask(l.Outside, daemon.ClientAddr(w.Family, n), w, to)
					return err
				})
			}
			if err := group.Wait(); err != nil {
				t.Fatal(err)
			}
			for _, other := range by[1:] {
				if other != by[0] {
					t.Fatalf("client %d got %v", n, by)
				}
			}
		}
	})
}
