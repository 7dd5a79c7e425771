package security

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// TestSingleFamilyHealthChecksListenInBoth sends health checks of single-stack Services
// from outside to four addresses of the node. Those that serve node ports respond,
// whatever their family; the others refuse.
func TestSingleFamilyHealthChecksListenInBoth(t *testing.T) {
	primary := []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8:2::1")}
	second := []netip.Addr{netip.MustParseAddr("192.0.2.11"), netip.MustParseAddr("2001:db8:2::11")}
	for nodePorts, serving := range map[string][]netip.Addr{
		"primary":                         primary,
		"0.0.0.0/0,::/0":                  slices.Concat(primary, second),
		"192.0.2.11/32,primary":           {primary[0], primary[1], second[0]},
		"192.0.2.1/32,2001:db8:2::11/128": {primary[0], second[1]},
	} {
		t.Run(strings.ReplaceAll(nodePorts, "/", "-"), func(t *testing.T) {
			l := newLab(t)
			folder := daemon.NewFolder(t, l)
			for _, a := range second {
				if err := l.Node.AddAddress(a); err != nil {
					t.Fatal(err)
				}
			}
			all := localServices(l)
			put(folder, all...)
			daemon.Start(t, l.Node, folder, "--nodeport-addresses="+nodePorts)
			for _, a := range slices.Concat(primary, second) {
				for port, body := range healthAnswers(all) {
					asked(t, l, netip.AddrPortFrom(a, port), body, slices.Contains(serving, a))
				}
			}
		})
	}
}

const firstHealthPort = 30081

// localServices returns single-stack Services of each family with none, one and two
// endpoints on the node.
func localServices(l *lab.Lab) (all []service) {
	addrs := slices.Concat(addrsOf(l.Pods[0].Host), addrsOf(l.Pods[1].Host))
	for _, f := range model.Families {
		for endpoints := range 3 {
			all = append(all, service{
				name: fmt.Sprintf("%s-%d", strings.ToLower(f.String()), endpoints), number: 1 + len(all),
				families: []model.Family{f}, endpoints: addrs[:2*endpoints],
				spec: fmt.Sprintf("type: LoadBalancer\nexternalTrafficPolicy: Local\nhealthCheckNodePort: %d\n", firstHealthPort+len(all)),
			})
		}
	}
	return all
}

// healthAnswers returns the responses of the health check node ports of [localServices].
func healthAnswers(services []service) map[uint16]string {
	out := map[uint16]string{}
	for i, s := range services {
		out[firstHealthPort+uint16(i)] = fmt.Sprintf("{\n\t\"service\": {\n\t\t\"namespace\": \"default\",\n\t\t\"name\": %q\n\t},\n"+
			"\t\"localEndpoints\": %d,\n\t\"serviceProxyHealthy\": true\n}", s.name, len(s.endpoints)/2)
	}
	return out
}

// asked checks for a response with this body, or a refusal.
func asked(t *testing.T, l *lab.Lab, at netip.AddrPort, body string, serves bool) {
	t.Helper()
	if !serves {
		refused(t, l.Outside, daemon.Transport{Protocol: model.TCP, Family: model.FamilyOf(at.Addr())}, at)
		return
	}
	// The ports open after the rules are committed.
	eventually.Succeeds(t, "the response of "+at.String(), func() error {
		got, err := l.Outside.Get("http://"+at.String()+"/healthz", answer)
		if err == nil && got != body {
			err = fmt.Errorf("got %s, want %s", got, body)
		}
		return err
	})
}
