package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"kube-vmap/cmd/inspect/nodes"
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/nodestatus/client"
	"kube-vmap/cmd/kube-vmap/serve"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel"
	"kube-vmap/nft/kernel/conntrack"
	"kube-vmap/nft/kernel/flowtable"
	"kube-vmap/sync/follow/fastpath"
	"kube-vmap/sync/follow/flows"
	"kube-vmap/sync/follow/listen/listentest"
)

func TestEachPartHasItsOwnHandle(t *testing.T) {
	k, err := kernel.Open(kernel.Config{})
	if err != nil {
		t.Fatal(err)
	}
	h, seen := handles{shared: k}, map[*kernel.Kernel]bool{k: true}
	for range 20 {
		seen[h.take()] = true
	}
	if len(seen) != 21 || h.err != nil {
		t.Errorf("%d handles, %v", len(seen), h.err)
	}
	for handle := range seen {
		if err := handle.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestStoppedProcessCanBeBypassed has a socket without a server.
func TestStoppedProcessCanBeBypassed(t *testing.T) {
	n := &proxyOrKernel{ThisNode: client.ThisNode{Client: client.Client{
		Socket: fmt.Sprintf("@kube-vmap-test-stopped-%d", os.Getpid()), Timeout: 50 * time.Millisecond,
	}}}
	l, err := net.Listen("unix", n.Socket) //nolint:noctx // it listens immediately
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := n.Document(t.Context(), nodes.Node{}, nodestatus.Query{}); !errors.Is(err, client.ErrUnresponsive) ||
		!strings.HasSuffix(err.Error(), "; --kernel reads the kernel's tables without it") {
		t.Error(err)
	}
}

func TestStatesOfTables(t *testing.T) {
	table := func(change func(*nft.Table)) *nft.Table {
		out := nft.NewTable()
		change(out)
		return out
	}
	for want, have := range map[string]*nft.Table{
		nodestatus.TableMissing: nil,
		nodestatus.TableOpen:    table(func(t *nft.Table) { t.Protected = true }),
		nodestatus.TableOwned:   table(func(t *nft.Table) { t.Protected, t.Owner = true, 7 }),
		nodestatus.TableForeign: table(func(t *nft.Table) { t.Owner, t.Foreign = 8, true }),
		nodestatus.TableDormant: table(func(t *nft.Table) { t.Dormant = true }),
	} {
		got := tableStates(nft.Tables{model.IPv6: have})[model.IPv6]
		if got != (nodestatus.Table{Family: "IPv6", State: want}) {
			t.Errorf("%s: %+v", want, got)
		}
	}
}

// TestYieldedPortIsLeftToKubeProxy has a kube-proxy that listens on the port when it is yielded, and
// may start again at any time.
func TestYieldedPortIsLeftToKubeProxy(t *testing.T) {
	kubeProxy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = kubeProxy.Close() }()
	synctest.Test(t, func(t *testing.T) {
		p := &proxy{log: slog.New(slog.DiscardHandler)}
		yielded, ended := make(chan struct{}), make(chan error, 1)
		s := serve.New(serve.Config{Name: "health", Address: kubeProxy.Addr().String(), Log: p.log})
		go func() { ended <- p.serve(t.Context(), s, yielded) }()
		<-time.After(time.Minute)
		close(yielded)
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(time.Hour):
			t.Error("an hour later it still tries to get the port")
		}
	})
}

// stuck is a kernel that deletes no connection on the fast path (before Linux 6.4).
type stuck struct{ flows.Kernel }

func (stuck) Delete([]conntrack.Entry) (int, error) { return 0, fmt.Errorf("delete: %w", unix.EBUSY) }

func TestFastPathIsDisabledIfConnectionsCannotBeDeleted(t *testing.T) {
	if _, err := flowtable.List(0); err != nil {
		t.Skip(err)
	}
	f := fastpath.New(fastpath.Config{
		Obstacle: func() string { return "another reason" },
		Log:      slog.New(slog.DiscardHandler),
	})
	go func() { _ = f.Run(t.Context()) }()
	listentest.Eventually(t, "there is a reason", func() bool { return f.State().Reason == "another reason" })
	for range 3 {
		if _, err := (trackedFlows{stuck{}, f}).Delete(nil); !errors.Is(err, unix.EBUSY) {
			t.Errorf("the error is %v", err)
		}
	}
	listentest.Eventually(t, "it is disabled", func() bool { return f.State().Reason != "another reason" })
}

func TestHeapGrowsLessDuringTheStart(t *testing.T) {
	percent := func() int {
		s := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		metrics.Read(s)
		return int(s[0].Value.Uint64())
	}
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	end := limitHeap()
	if percent() <= 100 {
		t.Error("the first collection is not delayed")
	}
	runtime.GC()
	for deadline := time.Now().Add(10 * time.Second); percent() != startPercent; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("GOGC is %d after the first collection", percent())
		}
	}
	end()
	if percent() != 100 {
		t.Errorf("GOGC is %d after the start", percent())
	}
	limitHeap()() // as if it took no collection
	runtime.GC()
	runtime.GC() // cleanups of the first one can run
	if percent() != 100 {
		t.Errorf("GOGC is %d after a start without collections", percent())
	}
	debug.SetGCPercent(70)
	limitHeap()
	if percent() != 70 {
		t.Errorf("GOGC was set to 70 and is %d", percent())
	}
}
