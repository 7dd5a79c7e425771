package components

import (
	"errors"
	"strings"
	"testing"

	"kube-vmap/nft/kernel/dump"
)

func TestObstacle(t *testing.T) {
	table := func(family, name string) Node {
		return Node{Tables: []dump.Table{{Family: family, Name: name, Chains: []dump.Chain{{Hook: "forward"}}}}}
	}
	pod := func(process string) Node { return Node{Processes: []Process{{PID: 7, Name: process, Elsewhere: true}}} }
	for name, test := range map[string]struct {
		node Node
		want string // part of the reason; empty for none
	}{
		"alone":               {Node{}, ""},
		"flannel on a bridge": {Node{left: names("interface", "flannel.1", "cni0")}, ""},
		"our rule set":        {table("ip", "kube-vmap"), ""},
		"our fast path":       {table("inet", "kube-vmap-fast-path"), ""},
		"a table of iptables": {table("ip", "filter"), ""},
		"Calico":              {Node{left: names("interface", "cali0123")}, "Calico"},
		"Cilium":              {Node{left: names("interface", "cilium_host")}, "Cilium"},
		"firewalld":           {table("inet", "firewalld"), "firewalld"},
		"an unknown table":    {table("inet", "site"), "site"},
		"unreadable tables":   {Node{Unseen: []Unseen{{NFTables, errors.New("no permission")}}}, "no permission"},
		"unreadable iptables": {Node{Unseen: []Unseen{{LegacyTables, errors.New("no permission")}}}, "no permission"},
		"a process":           {Node{Processes: []Process{{PID: 7, Name: "calico-node", Here: true}}}, "Calico"},
		"a mesh on the node":  {Node{Processes: []Process{{PID: 7, Name: "ztunnel", Here: true}}}, "Istio"},
		"rules of a mesh":     {table("inet", "istio-ambient-nat"), "Istio"},
		"a pod's process":     {pod("calico-node"), ""},
		"a mesh in a pod":     {pod("ztunnel"), ""},
		"a sidecar":           {pod("pilot-agent"), ""},
		"another sidecar":     {pod("linkerd2-proxy"), ""},
		"an unknown network":  {Node{Processes: []Process{{PID: 7, Name: "kube-vip"}}}, ""},
		"unseen processes":    {Node{Unseen: []Unseen{{Processes, errOwnProcesses}}}, ""},
	} {
		if got := Obstacle(&test.node); !strings.Contains(got, test.want) || test.want == "" && got != "" {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
