package takeover

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/nftables"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/foreign/kubeproxy"
	"kube-vmap/nft/wire"
)

// find returns what kube-proxy has in nf_tables.
func (m *machine) find() *kubeproxy.Found {
	m.t.Helper()
	found, err := kubeproxy.Find(m.host.FD())
	if err != nil {
		m.t.Fatal(err)
	}
	return found
}

// tryApply commits a batch as kube-vmap does.
func (m *machine) tryApply(b nft.Batch) error {
	m.t.Helper()
	_, err := labtest.Kernel(m.t, m.host).Apply(b)
	return err
}

func (m *machine) apply(b nft.Batch) {
	m.t.Helper()
	if err := m.tryApply(b); err != nil {
		m.t.Fatalf("%v\nof:\n%s", err, b)
	}
}

// nftModes are the modes of kube-proxy that program nf_tables.
var nftModes = []struct {
	name   string
	tables bool // of nftables mode
	load   func(*machine)
	// parts is the number of parts of each family.
	parts int
}{
	{"nftables", true, func(m *machine) { m.run(nftablesMode(m.t), "nft", "-f", "-") }, 8},
	{"iptables", false, func(m *machine) { m.loadKubeProxy(nftBackend, "iptables") }, 6},
	// Without its device, ipvs mode shows as iptables mode. KUBE-IPVS-FILTER is not a part.
	{"ipvs", false, func(m *machine) { m.addIPSets(); m.loadKubeProxy(nftBackend, "ipvs") }, 5},
}

func TestResumeUndoesSuspendByteForByte(t *testing.T) {
	for _, mode := range nftModes {
		t.Run(mode.name, func(t *testing.T) {
			m := newMachine(t)
			m.loadForeign(nftBackend)
			if found := m.find(); len(found.Parts)+len(found.Suspend())+len(found.Resume()) > 0 {
				t.Errorf("without kube-proxy, found %+v", found)
			}
			mode.load(m)
			before := m.listing(nftBackend)
			found := m.find()
			if found.HasTables() != mode.tables || found.IPVS || len(found.Awake()) != 2*mode.parts || len(found.Suspended()) > 0 {
				t.Fatalf("found %+v", found)
			}
			for range 2 {
				m.apply(m.find().Suspend())
				if found := m.find(); len(found.Awake()) > 0 || len(found.Suspended()) != 2*mode.parts || len(found.Suspend()) > 0 {
					t.Errorf("after the suspension, found %+v", found)
				}
				same(t, "other rules before and during the suspension", withoutSuspension(m.listing(nftBackend)), before)
				m.apply(m.find().Resume())
				same(t, "listings before the suspension and after going back", m.listing(nftBackend), before)
			}
		})
	}
}

func withoutSuspension(listing string) string {
	return suspension.ReplaceAllString(listing, "")
}

var suspension = regexp.MustCompile(`(?m)^.*"suspended by kube-vmap".*\n`)

func TestMarkerIsNoLeftover(t *testing.T) {
	m := newMachine(t)
	m.loadForeign(nftBackend)
	before := m.listing(nftBackend)
	m.run(nftablesMode(t), "nft", "-f", "-")
	if _, err := kubeproxy.Remove(kubeproxy.Config{NetNS: m.host.FD(), Marker: true}); err != nil {
		t.Fatal(err)
	}
	marked := m.listing(nftBackend)
	found := m.find()
	if len(found.Parts) > 0 || !slices.Equal(found.Markers, model.Families[:]) || strings.Count(marked, "chain kube-vmap-marker") != 2 {
		t.Errorf("found %+v in\n%s", found, marked)
	}
	m.expectNothingToRemove()
	for _, f := range model.Families {
		m.apply(kubeproxy.AddMarker(f))
	}
	same(t, "the markers before and after they were added again", m.listing(nftBackend), marked)
	m.apply(m.find().DeleteMarkers())
	same(t, "listings before kube-proxy and after the removal of the markers", m.listing(nftBackend), before)
}

func TestTakeoverStateIsTheCommentOfATable(t *testing.T) {
	m := newMachine(t)
	read := func(want string) {
		t.Helper()
		if got, err := kubeproxy.ReadTakeoverState(m.host.FD()); got != want || err != nil {
			t.Errorf("the state is %q, %v; want %q", got, err, want)
		}
	}
	read("")
	for _, tc := range []struct{ state, want string }{
		{"probation until=2026-11-22T18:10:00Z", "probation until=2026-11-22T18:10:00Z"},
		{"returned reason=\"not\nready\"", "returned reason='not ready'"},
		{strings.Repeat("ä", 70), strings.Repeat("ä", 62) + " ..."},
	} {
		m.apply(kubeproxy.WriteTakeoverState(tc.state))
		read(tc.want)
		listing := m.run("", "nft", "list", "ruleset")
		m.run("flush ruleset\n"+listing, "nft", "-f", "-")
		read(tc.want)
	}
	m.apply(kubeproxy.DeleteTakeoverState())
	m.apply(kubeproxy.DeleteTakeoverState())
	read("")
	if listing := m.run("", "nft", "list", "ruleset"); listing != "" {
		t.Errorf("left is\n%s", listing)
	}
}

// A refusal names the foreign step, and nothing else of the batch is applied.
func TestRefusedForeignStepIsNamed(t *testing.T) {
	for _, mode := range nftModes {
		t.Run(mode.name, func(t *testing.T) {
			m := newMachine(t)
			mode.load(m)
			suspend := m.find().Suspend()
			m.apply(suspend)
			resume := m.find().Resume()
			m.run("add table ip other", "nft", "-f", "-")
			var refusal *wire.Error
			if err := m.tryApply(append(nft.Batch{nft.AddTable{}}, resume...)); !errors.As(err, &refusal) || refusal.Errno != unix.ERESTART {
				t.Errorf("after another program's commit: %v", err)
			}
			m.run("flush ruleset", "nft", "-f", "-")
			err := m.tryApply(append(nft.Batch{nft.AddTable{}}, suspend...))
			if !errors.As(err, &refusal) || refusal.Errno != unix.ENOENT || !strings.Contains(err.Error(), "suspended by kube-vmap") {
				t.Errorf("without the chain: %v", err)
			}
			if op, foreign := refusal.Op.(nft.ForeignChange); !foreign {
				t.Errorf("the refused change is %v", op)
			}
			if listing := m.run("", "nft", "list", "ruleset"); listing != "" {
				t.Errorf("left is\n%s", listing)
			}
		})
	}
}

// A program that saves and restores all rules of iptables changes how the kernel holds ours.
func TestSuspensionSurvivesSaveAndRestore(t *testing.T) {
	m := newMachine(t)
	m.loadKubeProxy(nftBackend, "iptables")
	saved := map[model.Family]string{}
	for _, f := range model.Families {
		saved[f] = m.save(nftBackend, f)
	}
	m.apply(m.find().Suspend())
	for _, f := range model.Families {
		m.run(m.save(nftBackend, f), nftBackend.tool(f, "restore"))
	}
	if found := m.find(); len(found.Awake()) > 0 || len(found.Suspended()) == 0 {
		t.Errorf("found %+v", found)
	}
	m.apply(m.find().Resume())
	for _, f := range model.Families {
		same(t, "rules before the suspension and after going back", m.save(nftBackend, f), saved[f])
	}
}

// A chain of ten thousand Services is not read as a whole.
func TestLongChainsAreSuspended(t *testing.T) {
	m := newMachine(t)
	m.loadKubeProxy(nftBackend, "iptables")
	var long strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&long, "-A KUBE-SERVICES -d 10.97.%d.%d/32 -j KUBE-SVC-CDGGSHYLG3RE2FKL\n", i/250, i%250)
	}
	m.loadIPTables(nftBackend, model.IPv4, "*nat\n"+long.String()+"COMMIT\n")
	before := m.listing(nftBackend)
	m.apply(m.find().Suspend())
	// Another program's rule may come first.
	m.loadIPTables(nftBackend, model.IPv4, "*nat\n-I KUBE-SERVICES -s 192.0.2.7 -j RETURN\nCOMMIT\n")
	if found := m.find(); len(found.Awake()) > 0 {
		t.Errorf("awake are %v", found.Awake())
	}
	m.apply(m.find().Resume())
	m.loadIPTables(nftBackend, model.IPv4, "*nat\n-D KUBE-SERVICES -s 192.0.2.7 -j RETURN\nCOMMIT\n")
	same(t, "listings before the suspension and after going back", m.listing(nftBackend), before)
}

// kube-proxy on a node of one family has tables of that family only.
func TestOneFamilyIsSuspendedAndMarked(t *testing.T) {
	for _, f := range model.Families {
		m := newMachine(t)
		m.run(nftablesMode(t)+"delete table "+nft.FamilyName(model.Families[1-f])+" kube-proxy\n", "nft", "-f", "-")
		before := m.listing(nftBackend)
		m.apply(m.find().Suspend())
		if found := m.find(); len(found.Suspended()) != 8 || found.Suspended()[0].Family != f {
			t.Errorf("suspended are %v", found.Suspended())
		}
		m.apply(m.find().Resume())
		same(t, "listings before the suspension and after going back", m.listing(nftBackend), before)
		if _, err := kubeproxy.Remove(kubeproxy.Config{NetNS: m.host.FD(), Marker: true}); err != nil {
			t.Error(err)
		}
		if found := m.find(); len(found.Parts) > 0 || len(found.Markers) != len(model.Families) {
			t.Errorf("after the removal, found %+v", found)
		}
	}
}

// seesNFTablesMode decides as Calico's Felix does whether kube-proxy is in nftables mode: by
// any chain in table kube-proxy, of family ip or else of ip6 (KubeProxyNftablesEnabledFn in
// felix/nftables/utils.go of projectcalico/calico).
func seesNFTablesMode(m *machine) (bool, error) {
	conn, err := nftables.New(nftables.WithNetNSFd(m.host.FD()))
	if err != nil {
		return false, err
	}
	for _, f := range []nftables.TableFamily{nftables.TableFamilyIPv4, nftables.TableFamilyIPv6} {
		chains, err := conn.ListChainsOfTableFamily(f)
		if err != nil {
			return false, err
		}
		if slices.ContainsFunc(chains, func(c *nftables.Chain) bool { return c.Table.Name == "kube-proxy" }) {
			return true, nil
		}
	}
	return false, nil
}

// TestCalicoSeesNFTablesModeAllTheTime looks again and again while kube-proxy's rules are
// suspended, resumed, suspended again and removed.
func TestCalicoSeesNFTablesModeAllTheTime(t *testing.T) {
	m := newMachine(t)
	m.run(nftablesMode(t), "nft", "-f", "-")
	ctx, cancel := context.WithCancel(t.Context())
	var felix errgroup.Group
	looks := 0
	felix.Go(func() error {
		for ; ctx.Err() == nil; looks++ {
			if sees, err := seesNFTablesMode(m); err != nil || !sees {
				return errors.Join(err, errors.New("Felix would restart in iptables mode"))
			}
		}
		return nil
	})
	for range 10 {
		m.apply(m.find().Suspend())
		m.apply(m.find().Resume())
	}
	m.apply(m.find().Suspend())
	if _, err := kubeproxy.Remove(kubeproxy.Config{NetNS: m.host.FD(), Marker: true}); err != nil {
		t.Fatal(err)
	}
	if sees, err := seesNFTablesMode(m); err != nil || !sees {
		t.Errorf("after the removal it sees nftables mode: %t, %v", sees, err)
	}
	cancel()
	if err := felix.Wait(); err != nil || looks < 10 {
		t.Errorf("after %d looks: %v", looks, err)
	}
	for _, f := range model.Families {
		if !slices.Contains(m.find().Markers, f) {
			t.Errorf("no marker in %s", f)
		}
	}
	m.apply(m.find().DeleteMarkers())
	if sees, err := seesNFTablesMode(m); err != nil || sees {
		t.Errorf("without markers it sees nftables mode: %t, %v", sees, err)
	}
}
