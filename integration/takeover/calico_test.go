package takeover

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/nftables"
	"golang.org/x/sync/errgroup"

	"kube-vmap/model"
	"kube-vmap/nft/foreign/kubeproxy"
)

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
		if !m.find().HasMarker(f) {
			t.Errorf("no marker in %s", f)
		}
	}
	m.apply(m.find().DeleteMarkers())
	if sees, err := seesNFTablesMode(m); err != nil || sees {
		t.Errorf("without markers it sees nftables mode: %t, %v", sees, err)
	}
}
