package matrix

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
)

// configuration is a section of the table of flows, with flags of the proxy for which
// it holds.
type configuration struct {
	name, section string
	flags         []string
}

// configurations are for pods with their own interfaces.
var configurations = []configuration{
	{"pods detected by addresses", "pods are detected", []string{daemon.PodRanges}},
	{"pods detected by the node's ranges", "pods are detected", []string{"--detect-local-mode=NodeCIDR"}},
	{"pods detected by interfaces", "pods are detected", []string{"--detect-local-mode=InterfaceNamePrefix", "--pod-interface-name-prefix=veth"}},
	{"pods not detected", "pods are not detected", nil},
	{"masquerade all", "masquerade all", []string{daemon.PodRanges, "--masquerade-all"}},
	{"masquerade all, pods not detected", "masquerade all, pods are not detected", []string{"--masquerade-all"}},
}

// bridgeConfigurations are for pods on a bridge: the one of kubeadm, rules that match
// the bridge, and masquerading of packets that stay on it.
var bridgeConfigurations = []configuration{
	{"pods detected by addresses", "pods are detected", []string{daemon.PodRanges}},
	{"pods detected by their bridge", "pods are detected", []string{"--detect-local-mode=BridgeInterface", "--pod-bridge-interface=" + lab.BridgeName}},
	{"masquerade all", "masquerade all", []string{daemon.PodRanges, "--masquerade-all"}},
}

// TestMatrix has a Service for each policy and each row of the table of endpoints, to
// which all clients send questions over all transports. `kube-vmap explain` must agree, about the
// way there and back.
func TestMatrix(t *testing.T) {
	newScene(t).runMatrix(configurations, 0)
}

// TestMatrixWithBridgedPods is the same with pods on a bridge, where packets pass the
// rules when the bridge forwards them, before routing.
func TestMatrixWithBridgedPods(t *testing.T) {
	newSceneIn(t, lab.Options{Pods: 4, RemotePods: 2, Bridge: true}).runMatrix(bridgeConfigurations, 1)
}

// setsFor returns the rows of the table of endpoints to ask about in configuration n. Which
// endpoints serve does not depend on the configuration, so the gate has all rows in one.
func setsFor(n int, all []endpointSet) []endpointSet {
	if n > 0 && testing.Short() {
		return all[:1]
	}
	return all
}

// runMatrix asks all questions of the tables under these configurations, whose numbers begin
// with first.
func (s *scene) runMatrix(configurations []configuration, first int) {
	t := s.t
	sets := readEndpoints()
	s.cluster(daemon.ServiceCIDR(), daemon.NodeObject(s.Node, ""))
	s.put(matrixServices(sets)...)
	for n, c := range configurations {
		t.Run(c.name, func(t *testing.T) {
			s.t = t
			table := readFlows(t, c.section)
			defer s.start(append(c.flags, nodePortAddresses)...)()
			asked := 0
			for i, set := range setsFor(first+n, sets) {
				cells := s.cells(table, set, i)
				if first+n+i > 0 {
					cells = sampled(cells)
				}
				asked += len(cells)
				ok := t.Run(set.String(), func(t *testing.T) {
					s.check(t, slices.Clone(cells))
					s.checkExplained(t, cells)
				})
				if !ok {
					return // timeouts take long, and the others probably fail, too
				}
			}
			t.Logf("%d cells", asked)
		})
	}
}

func serviceOf(set, policy int) int { return 1 + set*len(policies) + policy }

func matrixServices(sets []endpointSet) []daemon.Service {
	var all []daemon.Service
	for i, set := range sets {
		for _, j := range set.policies() {
			p := policies[j]
			s := daemon.Service{
				Number: serviceOf(i, j), EndpointSpec: set.endpoints,
				LocalOutside: p.externalLocal, LocalInside: p.internalLocal,
			}
			switch set.choice {
			case "affinity":
				s.Affinity = time.Duration(1+j) * time.Hour
			case "hold":
				s.Hold = 10 * time.Minute
			default:
				s.Scheduler = set.choice
			}
			all = append(all, s)
		}
	}
	return all
}

// cells returns all questions about an endpoint set. For the first one, all clients use
// all kinds of frontends; for the others, one client and one address of each kind do.
func (s *scene) cells(table map[string][]treatment, set endpointSet, number int) []cell {
	clients, to := []*client{s.pod, s.itself, s.node, s.nodeOther, s.outside}, kinds
	if number > 0 {
		clients, to = s.clients(), set.kinds()
	}
	var all []cell
	for _, j := range set.policies() {
		for _, c := range clients {
			for _, k := range to {
				treatment := table[rowOf(c, k)][column(j, k)]
				for _, w := range daemon.Transports() {
					all = append(all, cell{
						name: fmt.Sprintf("%s, %s", policies[j].name, k), from: c, transport: w,
						to: k.at(w.Family, serviceOf(number, j)), want: set.result(treatment),
						list: list{serviceOf(number, j), w, treatment.local},
					})
				}
			}
		}
	}
	return all
}

// column returns the column of flows for a policy. For both policies Local, it is the
// column of the policy that applies to the kind of frontend.
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
	panic("matrix: no column for " + p.name)
}

func (s endpointSet) result(t treatment) result {
	r := s.all
	if t.local {
		r = s.local
	}
	r.source = t.source
	r.by = slices.Clone(r.by)
	return r
}
