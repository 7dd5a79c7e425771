package lab_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
)

const names = "labtest"

// use builds a lab and uses all of its features.
func use(t *testing.T, o lab.Options) *lab.Lab {
	t.Helper()
	l := labtest.New(t, o)
	serveAll(t, l.Hosts()...)
	if _, err := l.Pods[0].ServeWeb(80); err != nil {
		t.Fatal(err)
	}
	forAll(t, func(t *testing.T, p model.Protocol, f model.Family) {
		must(t, l.Outside, p, l.Pods[0].AddrPort(f, port), patience)
		flow, err := l.Outside.Flow(p, l.Outside.AddrPort(f, 0), l.Pods[0].AddrPort(f, port))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := flow.Ask(patience); err != nil { // and not closed
			t.Fatal(err)
		}
	})
	if err := l.Outside.Command(t.Context(), "true").Run(); err != nil {
		t.Fatal(err)
	}
	return l
}

func TestCloseLeavesNothingBehind(t *testing.T) {
	o := lab.Options{Pods: 2, RemotePods: 1, Names: names}
	if err := use(t, o).Close(); err != nil { // creates what exists only once
		t.Fatal(err)
	}
	observer := newObserver(t)
	before := takeStock(t)
	l := use(t, o)
	observer.connect(t, l)
	for range 2 {
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	observer.awaitEnd(t)
	before.returns(t)
	if _, err := l.Node.AddPod(); !errors.Is(err, lab.ErrClosed) {
		t.Errorf("add pod to a closed lab: %v", err)
	}
	if _, err := l.Outside.Serve(model.TCP, port); err == nil {
		t.Error("a closed lab serves")
	}
	before.returns(t)
}

func TestFailedNewLeavesNothingBehind(t *testing.T) {
	labtest.Require(t)
	obstacle := filepath.Join("/run/netns", fmt.Sprintf("%s-%d-pod-2", names, os.Getpid()))
	if err := os.MkdirAll(filepath.Dir(obstacle), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(obstacle, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := os.Remove(obstacle); err != nil {
			t.Error(err)
		}
	}()
	before := takeStock(t)
	l, err := lab.New(lab.Options{Pods: 3, Names: names})
	if l != nil || !errors.Is(err, os.ErrExist) {
		t.Fatalf("New succeeded: %v, %v", l, err)
	}
	before.returns(t)
}

// stock is what a lab could leave behind in a process and on its machine, or change.
type stock struct {
	files      int
	goroutines int
	names      []string
	network    string
}

func takeStock(t *testing.T) stock {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	s := stock{files: len(files), goroutines: runtime.NumGoroutine(), network: ownNetwork(t)}
	entries, err := os.ReadDir("/run/netns")
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), names) {
			s.names = append(s.names, e.Name())
		}
	}
	return s
}

// ownNetwork describes the namespace of the process, and of each of its threads.
func ownNetwork(t *testing.T) string {
	t.Helper()
	links, err := netlink.LinkList()
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, l := range links {
		addrs, err := netlink.AddrList(l, netlink.FAMILY_ALL)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, fmt.Sprint(l.Attrs().Name, l.Attrs().Flags, len(addrs)))
	}
	routes, err := netlink.RouteList(nil, netlink.FAMILY_ALL)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range routes {
		lines = append(lines, r.String())
	}
	forwarding, err := os.ReadFile("/proc/sys/net/ipv4/ip_forward")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(append(lines, string(forwarding), threads(t)), "\n")
}

// threads returns the network namespaces of the process's threads.
func threads(t *testing.T) string {
	t.Helper()
	paths, err := filepath.Glob("/proc/self/task/*/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, p := range paths {
		if target, err := os.Readlink(p); err == nil { // otherwise the thread just ended
			found = append(found, target)
		}
	}
	slices.Sort(found)
	return strings.Join(slices.Compact(found), " ")
}

// returns waits until everything is as it was. Goroutines need a moment to end.
func (s stock) returns(t *testing.T) {
	t.Helper()
	now := takeStock(t)
	for end := time.Now().Add(patience); now.goroutines > s.goroutines && time.Now().Before(end); now = takeStock(t) {
		runtime.Gosched()
	}
	if now.goroutines > s.goroutines {
		stacks := make([]byte, 1<<16)
		t.Errorf("%d goroutines, were %d:\n%s", now.goroutines, s.goroutines, stacks[:runtime.Stack(stacks, true)])
	}
	if now.files != s.files {
		t.Errorf("%d open files, were %d", now.files, s.files)
	}
	if !slices.Equal(now.names, s.names) {
		t.Errorf("named namespaces %v, were %v", now.names, s.names)
	}
	if now.network != s.network {
		t.Errorf("the machine's own network was\n%s\nand is\n%s", s.network, now.network)
	}
}

// observer is a namespace with links whose other ends are in the hosts of a lab. They
// disappear when the kernel removes those namespaces, which cannot be observed in
// another way.
type observer struct {
	handle *netlink.Handle
	count  int
}

func newObserver(t *testing.T) *observer {
	t.Helper()
	o := &observer{}
	l := labtest.New(t, lab.Options{})
	err := l.Outside.Do(func() (err error) { o.handle, err = netlink.NewHandle(); return err })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(o.handle.Close)
	return o
}

func (o *observer) connect(t *testing.T, l *lab.Lab) {
	t.Helper()
	for _, h := range l.Hosts() {
		var there netns.NsHandle
		if err := h.Do(func() (err error) { there, err = netns.Get(); return err }); err != nil {
			t.Fatal(err)
		}
		o.count++
		err := o.handle.LinkAdd(&netlink.Veth{
			LinkAttrs: netlink.LinkAttrs{Name: fmt.Sprintf("end%d", o.count)},
			PeerName:  "end", PeerNamespace: netlink.NsFd(there),
		})
		if err = errors.Join(err, there.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

func (o *observer) left(t *testing.T) (left int) {
	t.Helper()
	links, err := o.handle.LinkList()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		if strings.HasPrefix(l.Attrs().Name, "end") {
			left++
		}
	}
	return left
}

func (o *observer) awaitEnd(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	for left := o.count; left > 0; left = o.left(t) {
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("%d of %d namespaces still exist", left, o.count)
		}
	}
}
