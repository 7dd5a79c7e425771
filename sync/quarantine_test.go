package sync

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/wire"
)

// testPort returns the port of a Service in namespace default.
func testPort(name string) model.ServicePortName {
	return model.ServicePortName{ServiceName: model.ServiceName{Namespace: "default", Name: name}, Protocol: model.TCP}
}

// testServices returns Services of one port, with the ClusterIPs 10.96.0.1 and so on.
func testServices(names ...string) *model.ServiceMap {
	m := model.NewServiceMap(model.Options{Budget: Budget}, model.Node{Name: "node-1"})
	for i, name := range names {
		m.SetService(model.Service{
			Name:       testPort(name).ServiceName,
			ClusterIPs: []netip.Addr{netip.AddrFrom4([4]byte{10, 96, 0, byte(i + 1)})},
			Ports:      []model.ServicePort{{Protocol: model.TCP, Port: 80}},
		})
	}
	m.Changes()
	return m
}

func refusal(name string, errno syscall.Errno) *wire.Error {
	return &wire.Error{Service: testPort(name), Errno: errno}
}

// describe returns the Services of a change that are set, and the matches that are
// gone.
func describe(c nft.Change) string {
	var set, gone []string
	for _, f := range c.Set {
		set = append(set, f.Service.Name)
	}
	for _, m := range c.Gone {
		gone = append(gone, m.Addr.String())
	}
	slices.Sort(set)
	slices.Sort(gone)
	return fmt.Sprint("set ", set, " gone ", gone)
}

// TestListsAreHalvedBetweenServices has Services by the first letter of what belongs to them.
func TestListsAreHalvedBetweenServices(t *testing.T) {
	of := func(item string) model.ServiceName { return model.ServiceName{Name: item[:1]} }
	for list, want := range map[string]string{
		"b1 a1 b2 a2 a3 b3":    "[a1 a2 a3] [b1 b2 b3] true",
		"a1 a2 a3 a4 a5 b1":    "[a1 a2 a3 a4 a5] [b1] true",
		"a1 b1 b2 b3 b4 b5 b6": "[a1] [b1 b2 b3 b4 b5 b6] true",
		"a1 a2":                "[a1 a2] [] false",
	} {
		if one, other, divided := halve(strings.Fields(list), of); fmt.Sprint(one, other, divided) != want {
			t.Errorf("%s: %s, %s, %t, want %s", list, one, other, divided, want)
		}
	}
}

func TestQuarantineHoldsRetriesAndReleasesPorts(t *testing.T) {
	services := testServices("good", "bad")
	all := nft.Change{Set: services.Frontends()}
	good := nft.Change{Set: services.FrontendsOf(testPort("good").ServiceName)}
	bad := nft.Change{Set: services.FrontendsOf(testPort("bad").ServiceName)}
	q := newQuarantine()
	check := func(what string, c nft.Change, want string) {
		t.Helper()
		if got := describe(q.adjust(c, nil, services)); got != want {
			t.Errorf("%s: got %s, want %s", what, got, want)
		}
	}
	check("nothing in quarantine", all, "set [bad good] gone []")
	if !q.holdPort(refusal("bad", syscall.EINVAL)) || q.holdPort(refusal("bad", syscall.EINVAL)) {
		t.Error("the first refusal is news, the second is not")
	}
	if !q.holdPort(refusal("bad", syscall.E2BIG)) {
		t.Error("another reason is news")
	}
	check("held", all, "set [good] gone [10.96.0.2]")
	if names := q.release(); len(names) > 0 || !q.isHeld(testPort("bad")) || q.isRetrying(testPort("bad")) {
		t.Errorf("a held port was released: %v", names)
	}
	q.retryChanged(good.Set)
	check("another Service changed", good, "set [good] gone []")
	q.retryChanged(bad.Set)
	check("it changed itself", bad, "set [bad] gone []")
	q.holdPort(refusal("bad", syscall.E2BIG))
	q.retryAll()
	check("all are retried, and go along with other changes", good, "set [bad good] gone []")
	if names := q.release(); !slices.Equal(names, []string{testPort("bad").String()}) || q.len() != 0 {
		t.Errorf("released %v, %d left", names, q.len())
	}
}

func TestQuarantineKeepsServicesWithoutMemoryAsTheyAre(t *testing.T) {
	services := testServices("small", "large")
	rules, _ := nft.Adopt(nft.Config{MasqueradeMark: nft.DefaultMasqueradeMark}, nft.Tables{}, nft.Change{Set: services.Frontends()})
	large := testPort("large").ServiceName
	services.SetService(model.Service{
		Name: large, ClusterIPs: []netip.Addr{netip.AddrFrom4([4]byte{10, 96, 0, 9})},
		Ports: []model.ServicePort{{Protocol: model.TCP, Port: 80}},
	})
	changes := services.Changes()
	change := nft.Change{Set: changes.Set, Gone: changes.Gone}
	q := newQuarantine()
	q.holdService(large)
	if got := describe(q.adjust(change, rules, services)); got != "set [] gone []" {
		t.Errorf("held: %s", got)
	}
	q.retryAll()
	for range 2 { // the second time without a Service port that was refused the first time
		if got := describe(q.adjust(nft.Change{}, rules, services)); got != "set [large] gone [10.96.0.2]" {
			t.Errorf("retried: %s", got)
		}
	}
	if q.release(); q.len() != 0 {
		t.Errorf("%d are left in quarantine", q.len())
	}
}

func TestQuarantineBlamesAPortForMemoryOnlyTheSecondTime(t *testing.T) {
	q := newQuarantine()
	for i, want := range []bool{false, true, true} {
		if got := q.recordMemoryExhausted(testPort("web")); got != want {
			t.Errorf("time %d: %t", i+1, got)
		}
	}
	if q.recordMemoryExhausted(testPort("dns")) {
		t.Error("another port was blamed the first time")
	}
	q.allInstalled()
	if q.recordMemoryExhausted(testPort("dns")) {
		t.Error("a port was blamed after everything was installed")
	}
}

func TestQuarantineRetriesWithBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQuarantine()
		q.schedule()
		if q.running {
			t.Error("the timer runs for an empty quarantine")
		}
		q.holdPort(refusal("bad", syscall.EINVAL))
		wait := func(atLeast, atMost time.Duration) {
			t.Helper()
			q.schedule()
			start := time.Now()
			<-time.After(10 * time.Millisecond)
			q.schedule() // which must not put the timer off
			<-q.timer.C
			if took := time.Since(start); took < atLeast || took > atMost {
				t.Errorf("retried after %s, want %s to %s", took, atLeast, atMost)
			}
			q.retryAll()
			q.holdPort(refusal("bad", syscall.EINVAL))
		}
		wait(minBackoff, minBackoff*11/10)
		wait(2*minBackoff, 2*minBackoff*11/10)
		for range 20 {
			wait(minBackoff, maxBackoff*11/10)
		}
		wait(maxBackoff, maxBackoff*11/10)
		q.holdPort(refusal("new", syscall.EINVAL))
		wait(minBackoff, minBackoff*11/10)
	})
}
