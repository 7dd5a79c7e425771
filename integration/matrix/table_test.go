package matrix

import (
	"fmt"
	"strings"
	"testing"
)

// flows is the table of which client reaches which endpoints of a Service, and which
// source address the server sees. It has the rows of kube-proxy's
// TestInternalExternalMasquerade with its 27 flows: three clients, three destinations
// (here four, with the NodePort at two addresses), three policies.
//
// External means NodePort, load balancer IP and external IP. All endpoints answer, or
// only those of the node (local); the table of endpoints lists them. The server sees
// the client's own address, or the node's instead (SNAT).
//
// The first section is complete, the others have only the differences.
const flows = `
source -> destination | Cluster policy   | eTP: Local     | iTP: Local

pods are detected
pod     -> ClusterIP  | own, all         | own, all       | own, local
node    -> ClusterIP  | SNAT, all        | SNAT, all      | SNAT, local
outside -> ClusterIP  | SNAT, all        | SNAT, all      | SNAT, local
pod     -> external   | SNAT, all        | own, all       | SNAT, all
node    -> external   | SNAT, all        | SNAT, all      | SNAT, all
outside -> external   | SNAT, all        | own, local     | SNAT, all

pods are not detected
node    -> ClusterIP  | own, all         | own, all       | own, local
outside -> ClusterIP  | own, all         | own, all       | own, local
pod     -> external   | SNAT, all        | own, local     | SNAT, all

masquerade all
pod     -> ClusterIP  | SNAT, all        | SNAT, all      | SNAT, local

masquerade all, pods are not detected
pod     -> ClusterIP  | SNAT, all        | SNAT, all      | SNAT, local
pod     -> external   | SNAT, all        | own, local     | SNAT, all
`

// endpoints is the table of what all and local mean in the table of flows: the names of
// the hosts that answer, or that the question is refused, or that nothing comes back
// (silent). It covers kube-proxy's TestNoEndpointsReject, TestInternalTrafficPolicy and
// TestTerminatingEndpoints*. Pods are endpoints on this node, remotes on the other one.
// Those of weight 0 are drained. There are Services for each word of the second column: a
// scheduler, session affinity, or a hold; the table of spreads has which of the hosts answers.
const endpoints = `
there are                                                             | chosen by            | all                  | local

pod-1 pod-2 remote-1                                                  | random affinity      | pod-1 pod-2 remote-1 | pod-1 pod-2
pod-1 pod-2 pod-3/terminating remote-1 remote-2/terminated            | random               | pod-1 pod-2 remote-1 | pod-1 pod-2
pod-1/terminating pod-2/terminating pod-3/terminated remote-1         | random               | remote-1             | pod-1 pod-2
pod-1/terminating pod-2/terminating remote-1/terminating              | random affinity      | pod-1 pod-2 remote-1 | pod-1 pod-2
pod-1/unready pod-2 remote-1/unready                                  | random               | pod-2                | pod-2
remote-1                                                              | random affinity      | remote-1             | silent
remote-1/terminating remote-2/terminated                              | random               | remote-1             | silent
pod-1/terminated pod-2/unready remote-1/terminated remote-2/unready   | random               | refused              | refused
none                                                                  | random               | refused              | refused
none                                                                  | hold                 | silent               | silent
pod-1/weight=1 pod-2/weight=3 remote-1/weight=2 remote-2/weight=0     | ` + everyChoice + ` | pod-1 pod-2 remote-1 | pod-1 pod-2
pod-1/weight=0 pod-2/weight=0 remote-1/weight=3                       | random affinity      | remote-1             | silent
pod-1/weight=0 pod-2/terminating remote-1/weight=0                    | affinity lc          | pod-2                | pod-2
pod-1/weight=0 pod-2/terminating/weight=0 remote-1/weight=0           | random mh            | refused              | refused
`

// everyChoice are the words of all choices.
const everyChoice = "random rr sh mh lc affinity"

// spreads is the table of which of several hosts answers: each of them at some time (to
// questions from different ports); always the same one to a client, at whichever address
// of the Service; or any, which depends on the connections that there are.
const spreads = `
chosen by | answers come from

random    | each
rr        | each
sh        | same
mh        | each by port
lc        | any
affinity  | same
`

// policies are the columns of flows, with the two fields of a Service. If both are
// Local, each column holds for the traffic of its policy.
var policies = []struct {
	name                         string
	externalLocal, internalLocal bool
}{
	{name: "Cluster policy"},
	{name: "eTP: Local", externalLocal: true},
	{name: "iTP: Local", internalLocal: true},
	{name: "eTP: Local and iTP: Local", externalLocal: true, internalLocal: true},
}

// treatment is a field of the table of flows.
type treatment struct {
	source source
	local  bool
}

// lines returns the fields of a table's rows after the title of their section, if there
// is one. The first row is the head.
func lines(table string) [][]string {
	var rows [][]string
	title := ""
	for line := range strings.Lines(table) {
		fields := strings.Split(line, "|")
		for i := range fields {
			fields[i] = strings.Join(strings.Fields(fields[i]), " ")
		}
		switch {
		case len(fields) > 1:
			rows = append(rows, append([]string{title}, fields...))
		case fields[0] != "":
			title = fields[0]
		}
	}
	return rows[1:]
}

// readFlows returns the treatments by policy of a section's rows, by the name of the
// row.
func readFlows(t *testing.T, section string) map[string][]treatment {
	t.Helper()
	words := map[string]source{"own": own, "SNAT": snat}
	reach := map[string]bool{"all": false, "local": true}
	rows, found := map[string][]treatment{}, false
	for _, row := range lines(flows) {
		if row[0] != section && row[0] != "pods are detected" {
			continue
		}
		found = found || row[0] == section
		rows[row[1]] = nil
		for _, field := range row[2:] {
			who, which, _ := strings.Cut(field, ", ")
			source, ok := words[who]
			local, ok2 := reach[which]
			if !ok || !ok2 {
				t.Fatalf("table of flows, %s: %q is not a treatment", row[1], field)
			}
			rows[row[1]] = append(rows[row[1]], treatment{source, local})
		}
	}
	if !found {
		t.Fatalf("the table of flows has no section %q", section)
	}
	return rows
}

func rowOf(c *client, k kind) string {
	to := "external"
	if k == clusterIP {
		to = k.String()
	}
	return fmt.Sprintf("%s -> %s", c.row, to)
}

type endpointSet struct {
	endpoints, choice string
	all, local        result
}

// policies returns the indices of the policies that the set is tested under: all of them if
// endpoints are picked at random, otherwise two that give each kind of frontend all
// endpoints in one Service and those of the node in the other.
func (s endpointSet) policies() []int {
	if s.choice == "random" {
		return []int{0, 1, 2, 3}
	}
	return []int{1, 2}
}

// kinds returns the kinds of frontends that all clients use.
func (s endpointSet) kinds() []kind {
	if s.choice == "random" {
		return usual
	}
	return []kind{clusterIP, nodePort, vip}
}

// String returns the set's name.
func (s endpointSet) String() string { return "endpoints: " + s.endpoints + ", " + s.choice }

// known reports whether the proxy under test knows what the set has: kube-proxy has
// neither weights nor schedulers.
func (s endpointSet) known() bool {
	return kubeProxy == "" || !strings.Contains(s.endpoints, "weight=") && (s.choice == "random" || s.choice == "affinity")
}

// readEndpoints returns the sets that the proxy under test knows.
func readEndpoints() []endpointSet {
	spread := readSpreads()
	var all []endpointSet
	for _, row := range lines(endpoints) {
		for choice := range strings.FieldsSeq(row[2]) {
			s := endpointSet{endpoints: row[1], choice: choice, all: readResult(row[3]), local: readResult(row[4])}
			if s.endpoints == "none" {
				s.endpoints = ""
			}
			for _, r := range []*result{&s.all, &s.local} {
				r.others = choice == "random" && len(r.by) < len(strings.Fields(s.endpoints))
				r.spread = spread[choice]
			}
			if s.known() {
				all = append(all, s)
			}
		}
	}
	return all
}

func readSpreads() map[string]spread {
	words := map[string]spread{"each": each, "each by port": byPort, "same": same, "any": anyOf}
	out := map[string]spread{}
	for _, row := range lines(spreads) {
		out[row[1]] = words[row[2]]
	}
	return out
}

func readResult(field string) result {
	switch field {
	case "refused":
		return isRefused
	case "silent":
		return isSilent
	}
	return by(anySource, field)
}
