package matrix

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
)

// otherPrograms is the folder of the programs that .ci/other-programs builds and fetches.
const otherPrograms = "../../.cache/other-programs"

// otherProgram returns the absolute path of a file there. It skips the test if there is none.
func (s *scene) otherProgram(name string) string {
	s.t.Helper()
	path, err := filepath.Abs(filepath.Join(otherPrograms, name))
	s.must(err)
	if _, err := os.Stat(path); err != nil {
		s.t.Skipf("%s cannot be had, see .ci/other-programs", name)
	}
	return path
}

// rules runs the program of integration/otherprograms.
func (s *scene) rules(args ...string) {
	s.t.Helper()
	s.command("", s.otherProgram("bin/rules"), args...)
}

// clusterRanges are the ranges of all pods.
const clusterRanges = "10.244.0.0/16,fd00:10:244::/48"

// podRanges are the ranges of the pods of node-1.
func podRanges() string {
	return lab.PodRanges[model.IPv4].String() + "," + lab.PodRanges[model.IPv6].String()
}

func TestBesideFlannel(t *testing.T) {
	for _, mode := range []string{"iptables", "nftables"} {
		t.Run(mode, func(t *testing.T) {
			beside(t, program{load: func(s *scene) { s.rules("flannel", mode, podRanges(), clusterRanges) }})
		})
	}
}

func TestBesideTailscale(t *testing.T) {
	for _, mode := range []string{"iptables", "nftables"} {
		t.Run(mode, func(t *testing.T) {
			beside(t, program{load: func(s *scene) { s.rules("tailscale", mode) }})
		})
	}
}

// TestBesideVPCCNI has rules that overwrite the whole mark of packets. Interfaces of pods
// have the prefix that the lab gives them.
func TestBesideVPCCNI(t *testing.T) {
	beside(t, program{load: func(s *scene) {
		s.command("", "env", "AWS_VPC_K8S_CNI_VETHPREFIX=veth", s.otherProgram("bin/rules"),
			"vpc-cni", "eth0", lab.OutsideRanges[model.IPv4].String()+",10.244.0.0/16")
		if !slices.ContainsFunc(s.otherTables(), func(name string) bool { return strings.HasSuffix(name, " aws-cni") }) {
			s.t.Error("no table aws-cni")
		}
	}})
}

// eachAddress calls do for each load balancer IP of the Services that are tested.
func (s *scene) eachAddress(do func(f model.Family, a netip.Addr)) {
	s.t.Helper()
	for _, v := range besideServices(s.t, readEndpoints()) {
		for _, f := range model.Families {
			do(f, vip.at(f, v.Number).Addr())
		}
	}
}

// TestBesideKubeVIP has load balancer IPs on the node's interface, as kube-vip adds them to
// the node that it elects. The kernel may use them for what it masquerades over IPv6.
func TestBesideKubeVIP(t *testing.T) {
	loaded := false
	beside(t, program{sameStart: true, load: func(s *scene) {
		s.eachAddress(func(f model.Family, a netip.Addr) {
			address := netip.PrefixFrom(a, a.BitLen())
			if loaded {
				s.command("", "ip", "address", "replace", address.String(), "dev", "eth0")
				return
			}
			s.nodeAddrs = append(s.nodeAddrs, a)
			s.must(s.Remote.AddRoute(address, nodeAddr(f)))
			s.must(s.Node.AddAddress(a))
		})
		loaded = true
	}})
}

// TestBesideMetalLB has a router that looks for load balancer IPs on its link. MetalLB's
// announcer of L2 mode answers it if it was built; otherwise the router knows what it would
// answer, the node's link-layer address.
func TestBesideMetalLB(t *testing.T) {
	announcer, err := filepath.Abs(filepath.Join(otherPrograms, "bin", "announce"))
	if err == nil {
		_, err = os.Stat(announcer)
	}
	loaded := false
	beside(t, program{sameStart: true, announces: true, load: func(s *scene) {
		if loaded {
			return
		}
		loaded = true
		// Not from /sys, which shows the interfaces of another network namespace.
		link := strings.Fields(s.command("", "ip", "-brief", "link", "show", "dev", "eth0"))[2]
		var addresses []string
		s.eachAddress(func(_ model.Family, a netip.Addr) {
			addresses = append(addresses, a.String())
			s.ipOutside("route", "replace", netip.PrefixFrom(a, a.BitLen()).String(), "dev", "eth0")
			if err != nil {
				s.ipOutside("neighbor", "replace", a.String(), "lladdr", link, "dev", "eth0")
			}
		})
		if err == nil {
			announce := s.Node.Command(s.t.Context(), announcer, addresses...)
			s.must(announce.Start())
			s.t.Cleanup(func() { _ = announce.Process.Kill(); _ = announce.Wait() })
		}
	}})
}

func (s *scene) ipOutside(args ...string) {
	s.t.Helper()
	labtest.Run(s.t, s.Outside, "", "ip", args...)
}

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
