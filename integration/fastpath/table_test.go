package fastpath

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/integration/process"
	"kube-vmap/nft/kernel/flowtable"
	"kube-vmap/sync/follow/fastpath"
)

func TestTableOfFastPathEndsWithTheProcess(t *testing.T) {
	m := newMachine(t, lab.Options{Pods: 3}, "pod-1")
	m.Stop()
	m.expectTable(false)
	m.start("--fast-path")
	m.AwaitMessage("the fast path is on")
	m.Kill()
	m.expectTable(false)
}

// TestConnectionsContinueWithoutTheTable kills the process that has the table, and starts
// another one.
func TestConnectionsContinueWithoutTheTable(t *testing.T) {
	m := newMachine(t, lab.Options{Pods: 3}, "pod-1")
	flows := m.flowsOfAll()
	m.Kill()
	for w, f := range flows {
		if seen := m.forwarded(w.Family, func() { m.ask(f) }); seen < 2 {
			t.Errorf("%s: the hook saw %d packets without the table", w, seen)
		}
	}
	m.start("--fast-path")
	m.AwaitMessage("the fast path is on")
	for w, f := range flows {
		m.ask(f)
		m.ask(f)
		if seen := m.forwarded(w.Family, func() { m.ask(f) }); isFast(w) != (seen == 0) {
			t.Errorf("%s: the hook saw %d packets with the new table", w, seen)
		}
	}
}

func TestOtherProgramsCannotChangeTheTable(t *testing.T) {
	m := newMachine(t, lab.Options{Pods: 3}, "pod-1")
	m.nft("flush ruleset")
	cmd := m.Node.Command(t.Context(), "nft", "delete table inet "+flowtable.TableName())
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "Operation not permitted") {
		t.Errorf("nft delete table: %v, %s", err, out)
	}
	m.expectTable(true)
}

// TestSecondProcessWaits has another process own a table of this name.
func TestSecondProcessWaits(t *testing.T) {
	m := idleMachine(t, lab.Options{Pods: 3}, "pod-1")
	table, _, err := flowtable.Add(m.Node.FD(), []string{"eth0"}, 1)
	if err != nil {
		t.Fatal(err)
	}
	m.start("--fast-path")
	m.Ignore("the fast path is off")
	m.Logged(0, "the fast path is off", func(e process.Entry) bool { return strings.Contains(e["reason"], "another process has this table") })
	if err := table.Close(); err != nil {
		t.Fatal(err)
	}
	m.AwaitMessage("the fast path is on")
}

// TestRefusedInterfacesCostOnlyThemselves has a kernel that refuses none if it can take every
// interface by one name.
func TestRefusedInterfacesCostOnlyThemselves(t *testing.T) {
	m := idleMachine(t, lab.Options{Pods: 2}, "pod-1")
	has := func(want ...string) {
		t.Helper()
		all, err := flowtable.List(m.Node.FD())
		if err != nil || len(all) != 1 || !slices.Equal(all[0].Devices, want) {
			t.Errorf("flowtables %+v, %v; want one with %q", all, err, want)
		}
	}
	table, refused, err := flowtable.Add(m.Node.FD(), []string{"eth0", "gone-1", m.Pods[0].Link, "gone-2"}, 1)
	if err == nil && table.HasEveryDevice() {
		has("*")
		if more, err := table.AddDevices([]string{"gone-3"}); err != nil || len(refused)+len(more) > 0 {
			t.Errorf("refused %v and %v, %v", refused, more, err)
		}
		has("*")
		return
	}
	if err != nil || len(refused) != 2 || !errors.Is(refused["gone-1"], fs.ErrNotExist) {
		t.Fatalf("refused: %v, %v", refused, err)
	}
	has("eth0", m.Pods[0].Link)
	link := func(args ...string) {
		t.Helper()
		labtest.Run(t, m.Node.Host, "", "ip", append([]string{"link"}, args...)...)
	}
	var commands strings.Builder
	many, have := []string{"gone-3"}, []string{"eth0", m.Pods[0].Link}
	for i := range 300 { // more than the kernel takes in one message
		name := fmt.Sprintf("many-%03d", i)
		fmt.Fprintf(&commands, "link add %s type dummy\n", name)
		many, have = append(many, name), append(have, name)
	}
	labtest.Run(t, m.Node.Host, commands.String(), "ip", "-batch", "-")
	slices.Sort(have)
	if refused, err := table.AddDevices(many); err != nil || len(refused) != 1 {
		t.Fatalf("refused of many: %v, %v", refused, err)
	}
	has(have...)
	// The socket can be used again, also after errors.
	link("add", "late", "type", "dummy")
	if refused, err := table.AddDevices([]string{"gone-4", "late"}); err != nil || len(refused) != 1 {
		t.Fatalf("refused later: %v, %v", refused, err)
	}
	if err := table.Close(); err != nil {
		t.Fatal(err)
	}
	m.expectTable(false)
}

func TestTransactionsOfTheFastPathAreNotForeign(t *testing.T) {
	m := idleMachine(t, lab.Options{Pods: 2}, "pod-1")
	k := labtest.Kernel(t, m.Node.Host)
	beside, err := k.Share()
	if err != nil {
		t.Fatal(err)
	}
	defer beside.Close()
	foreign := func() uint32 {
		n, err := k.ForeignChanges()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := foreign()
	f := fastpath.New(fastpath.Config{
		NetNS: m.Node.FD(), After: 1, Log: slog.New(slog.DiscardHandler),
		CountCommit: beside.CountCommit, Obstacle: func() string { return "" },
	})
	go func() { _ = f.Run(t.Context()) }()
	eventually.Holds(t, "it is on", func() bool { return f.State().On })
	devices := f.State().Devices
	labtest.Run(t, m.Node.Host, "", "ip", "link", "add", "d0", "type", "dummy")
	m.awaitDevices("d0")
	eventually.Holds(t, "the device counts", func() bool { return f.State().Devices > devices })
	if now := foreign(); now != before {
		t.Errorf("the fast path counts as foreign: %d, then %d", before, now)
	}
}

// TestTableIsRemovedIfObstaclesCannotBeSeen has a network namespace that cannot be entered any more.
func TestTableIsRemovedIfObstaclesCannotBeSeen(t *testing.T) {
	m := idleMachine(t, lab.Options{Pods: 2}, "pod-1")
	netNS, err := unix.Dup(m.Node.FD())
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(netNS)
	f := fastpath.New(fastpath.Config{
		NetNS: netNS, After: 1, Log: slog.New(slog.DiscardHandler),
		CountCommit: func() {}, Obstacle: func() string { return "" },
	})
	go func() { _ = f.Run(t.Context()) }()
	eventually.Holds(t, "it is on", func() bool { return f.State().On })
	m.expectTable(true)
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if err := unix.Dup3(int(null.Fd()), netNS, unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	labtest.Run(t, m.Node.Host, "", "ip", "link", "add", "d0", "type", "dummy")
	eventually.Holds(t, "it is off", func() bool { return !f.State().On })
	m.expectTable(false)
}

// TestAllKindsOfInterfacesTakePart adds, renames and removes interfaces of kinds that nodes
// have.
func TestAllKindsOfInterfacesTakePart(t *testing.T) {
	m := newMachine(t, lab.Options{Pods: 3}, "pod-1")
	link := func(args ...string) {
		t.Helper()
		labtest.Run(t, m.Node.Host, "", "ip", append([]string{"link"}, args...)...)
	}
	names := []string{"d0"}
	link("add", "d0", "type", "dummy")
	for name, kind := range map[string]string{
		"vlan7": "link d0 type vlan id 7", "macvlan7": "link d0 type macvlan", "ifb7": "type ifb", "bridge7": "type bridge",
		"vxlan7": "type vxlan id 7 dstport 4789", "wg7": "type wireguard", "ipip7": "type ipip remote 192.0.2.7", "vrf7": "type vrf table 7",
	} {
		add := m.Node.Command(t.Context(), "ip", append([]string{"link", "add", "name", name}, strings.Fields(kind)...)...)
		if out, err := add.CombinedOutput(); err != nil {
			t.Logf("no %s: %s", name, out)
			continue
		}
		names = append(names, name)
	}
	m.awaitDevices(names...)
	link("add", "b0", "type", "dummy")
	link("add", "c0", "type", "dummy")
	m.awaitDevices("b0", "c0")
	link("set", "b0", "name", "b1")
	link("set", "c0", "name", "b0") // a name that another one had
	link("add", "c0", "type", "dummy")
	m.awaitDevices("b0", "b1", "c0")
	link("del", "d0")
	link("add", "d0", "type", "dummy") // immediately, so that both names were seen
	m.awaitDevices("d0")
	if n := m.CountMessages("an interface stays off the fast path", "the fast path is off"); n > 0 {
		t.Errorf("%d warnings", n)
	}
}
