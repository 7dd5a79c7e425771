package matrix

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
)

// hostPort is a host port of pod-1, which is no NodePort.
const hostPort = 31_000

type object = map[string]any

// A container is a network namespace to which CNI plugins are applied.
type container struct {
	s     *scene
	host  *lab.Host
	addrs []netip.Prefix // if it has an interface already
}

// cni runs a plugin for the container, which must succeed.
func (c container) cni(command, plugin string, config object) {
	c.s.t.Helper()
	config["cniVersion"], config["name"], config["type"] = "1.0.0", "lab", plugin
	text, err := json.Marshal(config)
	c.s.must(err)
	path := c.s.otherProgram(filepath.Join("bin", plugin))
	c.s.command(string(text), "env", "CNI_COMMAND="+command, "CNI_CONTAINERID="+c.host.Name, "CNI_IFNAME=eth0",
		fmt.Sprintf("CNI_NETNS=/proc/%d/fd/%d", os.Getpid(), c.host.FD()), "CNI_PATH="+filepath.Dir(path), path)
}

// result is what the plugin before returned: the container's interface and addresses.
func (c container) result() object {
	var ips []object
	for _, a := range c.addrs {
		ips = append(ips, object{"address": a.String(), "interface": 0})
	}
	return object{"cniVersion": "1.0.0", "interfaces": []object{{"name": "eth0", "sandbox": "/"}}, "ips": ips}
}

// portmap returns a portmap plugin with this configuration, which maps the host port to
// pod-1 over all protocols.
func portmap(config func() object) program {
	loaded := false
	run := func(s *scene, command string) {
		s.t.Helper()
		c := container{s: s, host: s.Pods[0].Host}
		for _, f := range model.Families {
			c.addrs = append(c.addrs, netip.PrefixFrom(c.host.Addr(f), lab.PodRanges[f].Bits()))
		}
		var ports []object
		for _, p := range model.Protocols {
			ports = append(ports, object{"hostPort": hostPort, "containerPort": daemon.TargetPort, "protocol": p.String()})
		}
		o := config()
		o["capabilities"], o["runtimeConfig"] = object{"portMappings": true}, object{"portMappings": ports}
		o["prevResult"] = c.result()
		c.cni(command, "portmap", o)
	}
	return program{
		load: func(s *scene) {
			if loaded {
				run(s, "DEL")
			}
			run(s, "ADD")
			loaded = true
		},
		check: func(t *testing.T, s *scene) {
			at := func(f model.Family) netip.AddrPort { return addrPort(nodeAddr(f), hostPort) }
			s.check(t, asksAt([]*client{s.node, s.outside}, at, by(own, "pod-1")))
			s.check(t, asksAt([]*client{s.pod}, at, by(anySource, "pod-1"))) // the backends differ
			s.check(t, asksAt([]*client{s.itself}, at, by(snat, "pod-1")))
		},
	}
}

func TestBesidePortmapIPTables(t *testing.T) {
	beside(t, portmap(func() object { return object{"backend": "iptables"} }))
}

func TestBesidePortmapNftables(t *testing.T) {
	beside(t, portmap(func() object { return object{"backend": "nftables"} }))
}

// TestPortmapCanRequestMasqueradeByKubeProxysMark has the chain of kube-proxy to which
// portmap jumps if it is so configured: the mark that the chain sets is masqueraded by
// kube-vmap.
func TestPortmapCanRequestMasqueradeByKubeProxysMark(t *testing.T) {
	p := portmap(func() object { return object{"backend": "iptables", "externalSetMarkChain": "KUBE-MARK-MASQ"} })
	add := p.load
	p.load = func(s *scene) {
		if len(s.otherTables()) == 0 {
			for _, restore := range []string{"iptables-nft-restore", "ip6tables-nft-restore"} {
				s.command("*nat\n:KUBE-MARK-MASQ - [0:0]\n-A KUBE-MARK-MASQ -j MARK --or-mark 0x4000\nCOMMIT\n", restore, "--noflush")
			}
		}
		add(s)
	}
	beside(t, p)
}

// TestBesideBridge has a pod on the bridge of the bridge plugin, which masquerades what the
// pod sends to others than the pods of its node.
func TestBesideBridge(t *testing.T) {
	for _, backend := range []string{"iptables", "nftables"} {
		t.Run(backend, func(t *testing.T) {
			pod := labtest.Alone(t)
			dir := t.TempDir()
			config := func() object {
				var ranges [][]object
				for _, f := range model.Families {
					r := lab.PodRanges[f]
					ranges = append(ranges, []object{{"subnet": r.String(), "rangeStart": nth(r, 200).String(), "rangeEnd": nth(r, 200).String(), "gateway": nth(r, 1).String()}})
				}
				return object{
					"bridge": "cni1", "isGateway": true, "ipMasq": true, "ipMasqBackend": backend,
					"ipam": object{"type": "host-local", "dataDir": dir, "ranges": ranges, "routes": []object{{"dst": "0.0.0.0/0"}, {"dst": "::/0"}}},
				}
			}
			loaded := false
			beside(t, program{
				masquerades: "pod",
				load: func(s *scene) {
					c := container{s: s, host: pod}
					if loaded {
						c.cni("DEL", "bridge", config())
					}
					c.cni("ADD", "bridge", config())
					loaded = true
					s.pod.Host = pod
					s.pod.from = [2]netip.Addr{nth(lab.PodRanges[model.IPv4], 200), nth(lab.PodRanges[model.IPv6], 200)}
				},
			})
		})
	}
}
