package matrix

import (
	"fmt"
	"slices"
	"testing"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
)

// configuration is a section of the table of flows with flags of the proxy that lead
// to it.
type configuration struct {
	says, section string
	flags         []string
}

// configurations are for pods with interfaces of their own.
var configurations = []configuration{
	{"pods are told by their addresses", "pods are told by a detector", []string{daemon.PodRanges}},
	{"pods are told by their interfaces", "pods are told by a detector", []string{"--detect-local-mode=InterfaceNamePrefix", "--pod-interface-name-prefix=veth"}},
	{"pods cannot be told", "no detector", nil},
	{"masquerade all", "masquerade all", []string{daemon.PodRanges, "--masquerade-all"}},
	{"masquerade all, and pods cannot be told", "masquerade all, no detector", []string{"--masquerade-all"}},
}

// bridgeConfigurations are for pods on a bridge: what kubeadm sets up, rules that ask
// for the bridge, and masquerading of what stays on it.
var bridgeConfigurations = []configuration{
	{"pods are recognised by their addresses", "pods are told by a detector", []string{daemon.PodRanges}},
	{"pods are recognised by their bridge", "pods are told by a detector", []string{"--detect-local-mode=BridgeInterface", "--pod-bridge-interface=" + lab.BridgeName}},
	{"masquerade all", "masquerade all", []string{daemon.PodRanges, "--masquerade-all"}},
}

// TestEveryWayToAServiceIsAsTheTablesSay takes a Service for each policy and
// situation of the endpoints, and everybody asks them all in every way.
func TestEveryWayToAServiceIsAsTheTablesSay(t *testing.T) {
	newScene(t).everyWay(configurations)
}

// TestEveryWayFromABridgeIsAsTheTablesSay is the same with pods on a bridge, where
// packets come to the rules from the bridge, and not from routing.
func TestEveryWayFromABridgeIsAsTheTablesSay(t *testing.T) {
	newSceneIn(t, lab.Options{Pods: 4, RemotePods: 2, Bridge: true}).everyWay(bridgeConfigurations)
}

// everyWay asks every question of the tables under these configurations.
func (s *scene) everyWay(configurations []configuration) {
	t := s.t
	situations := readEndpoints()
	s.cluster(daemon.ServiceCIDR(), daemon.NodeObject(s.Node, ""))
	s.put(matrixServices(situations)...)
	for _, c := range configurations {
		t.Run(c.says, func(t *testing.T) {
			s.t = t
			table := readFlows(t, c.section)
			defer s.start(append(c.flags, nodePortAddresses)...)()
			asked := 0
			for i, situation := range situations {
				cells := s.cells(table, situation, i)
				asked += len(cells)
				ok := t.Run("endpoints: "+situation.endpoints, func(t *testing.T) { s.check(t, cells) })
				if !ok {
					return // what does not answer takes long, and the rest may be like it
				}
			}
			t.Logf("%d cells", asked)
		})
	}
}

// serviceOf is the number of the Service for a situation and a policy.
func serviceOf(situation, policy int) int { return 1 + situation*len(policies) + policy }

func matrixServices(situations []situation) []daemon.Service {
	var all []daemon.Service
	for i, situation := range situations {
		for j, p := range policies {
			all = append(all, daemon.Service{
				Number: serviceOf(i, j), EndpointSpec: situation.endpoints,
				LocalOutside: p.externalLocal, LocalInside: p.internalLocal,
			})
		}
	}
	return all
}

// cells are all questions about a situation. In the first one, everybody asks in
// all ways; in the others, a client and an address of each kind will do.
func (s *scene) cells(table map[string][]treatment, situation situation, number int) []cell {
	clients, to := []*client{s.pod, s.itself, s.node, s.nodeToo, s.outside}, kinds
	if number > 0 {
		clients, to = s.clients(), usual
	}
	var all []cell
	for j, p := range policies {
		for _, c := range clients {
			for _, k := range to {
				want := situation.result(table[rowOf(c, k)][column(j, k)])
				for _, w := range daemon.Transports() {
					all = append(all, cell{
						says: fmt.Sprintf("%s, %s", p.says, k), from: c, transport: w,
						to: k.at(w.Family, serviceOf(number, j)), want: want,
					})
				}
			}
		}
	}
	return all
}

// column is the column of flows for a policy: for one that is both, the column
// of the policy that matters.
func column(policy int, k kind) int {
	p := policies[policy]
	wanted := p
	if k == clusterIP {
		wanted.externalLocal = p.externalLocal && !p.internalLocal
	} else {
		wanted.internalLocal = p.internalLocal && !p.externalLocal
	}
	for i, q := range policies {
		if q.externalLocal == wanted.externalLocal && q.internalLocal == wanted.internalLocal {
			return i
		}
	}
	panic("matrix: no column for " + p.says)
}

func (s situation) result(t treatment) result {
	r := s.all
	if t.local {
		r = s.local
	}
	r.source = t.source
	r.by = slices.Clone(r.by)
	return r
}
