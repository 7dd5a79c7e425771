package components

import "slices"

// IDs of components that other packages ask for.
const (
	KubeProxy = "kube-proxy"
	Calico    = "calico"
	Bridge    = "bridge"
)

// known are all components, in the order in which they are printed: proxies, CNI plugins,
// policy engines and meshes, load balancers, and what belongs to the node itself. Each row
// of docs/compatibility.md is one of them, or one of their modes.
var known = slices.Concat(proxies, networks, meshes, balancers, firewalls)

// proxies are programs that translate the addresses of Services.
var proxies = []entry{
	{
		// What is to be done depends on whether it runs; see package preflight.
		Component: Component{KubeProxy, "kube-proxy", Fine, "kube-vmap takes over from it"},
		// kubernetes/kubernetes cmd/kube-proxy; its ports are in pkg/cluster/ports/ports.go.
		// Distributions that run it in a process of their own (k3s, MicroK8s) have no process
		// of this name.
		signs: []sign{process("kube-proxy"), port(10249), port(10256)},
		modes: []entry{
			{
				Component: Component{"kube-proxy-nftables", "kube-proxy (nftables)", Fine, "kube-vmap takes over from it"},
				signs:     []sign{table("kube-proxy")}, // pkg/proxy/nftables/proxier.go (kubeProxyTable)
			},
			{
				Component: Component{"kube-proxy-ipvs", "kube-proxy (ipvs)", Fine, "kube-vmap takes over from it"},
				signs:     []sign{link("kube-ipvs0")}, // pkg/proxy/ipvs/proxier.go (defaultDummyDevice)
			},
			{
				Component: Component{"kube-proxy-iptables", "kube-proxy (iptables-nft)", Fine, "kube-vmap takes over from it"},
				// pkg/proxy/iptables/proxier.go (kubeServicesChain, kubeProxyCanaryChain)
				signs: []sign{nftChain("nat/KUBE-SERVICES"), nftChain("nat/KUBE-PROXY-CANARY")},
			},
			{
				Component: Component{
					"kube-proxy-iptables-legacy", "kube-proxy (iptables-legacy)", Conflict, LegacyAdvice,
				},
				signs: []sign{legacy("nat/KUBE-SERVICES")}, // kube-proxy --cleanup leaves its canary
			},
		},
	},
	{
		Component: Component{"other-proxies", "other Service proxies", Conflict, "turn it off: only one program may translate addresses of Services"},
		signs: []sign{
			table("k8s_svc*"),       // kubernetes-retired/kpng backends/nft/nft.go
			process("kpng"),         // kubernetes-retired/kpng cmd/kpng
			table("kube-nfproxy-*"), // sbezverk/nfproxy pkg/nftables/nftables.go (nfV4TableName)
			process("nfproxy"),      // sbezverk/nfproxy cmd/nfproxy.go
		},
	},
}

// Where Cilium pins programs (cilium/cilium pkg/bpf, CiliumPath), and those for sockets.
const (
	ciliumPins     = "/sys/fs/bpf/cilium"
	ciliumPrograms = ciliumPins + "/socketlb/links/cgroup/"
)

// LegacyAdvice is what to do with kube-proxy's rules of iptables-legacy.
const LegacyAdvice = "kube-vmap cannot remove its rules, and waits: stop kube-proxy, then run kube-proxy --cleanup on the node"

// networks are CNI plugins.
var networks = []entry{
	{
		Component: Component{Calico, "Calico", Fine, "its mode is not visible"},
		signs: []sign{
			plugin("calico"),       // projectcalico/calico cni-plugin/pkg/install/install.go
			link("cali*"),          // projectcalico/calico felix/config/config_params.go (InterfacePrefix)
			process("calico-node"), // projectcalico/calico node/cmd/calico-node
			process("calico-felix"),
		},
		modes: []entry{
			{
				Component: Component{"calico-ebpf", "Calico (eBPF)", Conflict, "it is a Service proxy itself: set bpfEnabled to false, or do not use kube-vmap"},
				signs:     []sign{link("bpfin.cali"), link("bpfout.cali")}, // felix/dataplane/linux/dataplanedefs
			},
			{
				Component: Component{"calico-nftables", "Calico (nftables)", Fine, "looks for table kube-proxy, which --kube-proxy-marker=auto keeps for it"},
				signs:     []sign{table("calico")}, // felix/dataplane/linux/int_dataplane.go (nftables.NewTable)
			},
			{
				Component: Component{"calico-iptables", "Calico (iptables)", Fine, ""},
				signs:     []sign{chain("cali-*")}, // felix/rules/rule_defs.go (ChainNamePrefix)
			},
		},
	},
	{
		Component: Component{"cilium", "Cilium", Needs, "needs kubeProxyReplacement=false; whether that is set is not visible"},
		signs: []sign{
			plugin("cilium-cni"),    // cilium/cilium plugins/cilium-cni
			link("cilium_*"),        // cilium/cilium pkg/defaults/node.go (HostDevice, SecondHostDevice)
			process("cilium-agent"), // cilium/cilium daemon
			chain("CILIUM_*"),       // cilium/cilium pkg/datapath/iptables/iptables.go (ciliumPrefix)
		},
		modes: []entry{
			{
				Component: Component{
					"cilium-proxy", "Cilium, as Service proxy", Conflict,
					"it is a Service proxy itself: set kubeProxyReplacement=false, or do not use kube-vmap",
				},
				// pkg/socketlb/socketlb.go (Enable): programs that translate addresses at connect()
				signs: []sign{file(ciliumPrograms + "cil_sock4_connect"), file(ciliumPrograms + "cil_sock6_connect")},
			},
			{
				Component: Component{"cilium-without-proxy", "Cilium, without its proxy", Fine, ""},
				signs:     []sign{file(ciliumPins)}, // and none of those
			},
		},
	},
	{
		Component: Component{"flannel", "flannel", Fine, ""},
		signs: []sign{
			plugin("flannel"),           // flannel-io/cni-plugin flannel.go
			process("flanneld"),         // flannel-io/flannel main.go
			link("flannel.*"),           // flannel-io/flannel pkg/backend/vxlan/vxlan.go
			link("flannel-v6.*"),        // the same
			link("flannel-wg*"),         // flannel-io/flannel pkg/backend/wireguard/wireguard.go
			table("flannel-ipv4"),       // flannel-io/flannel pkg/trafficmngr/nftables/nftables.go
			table("flannel-ipv6"),       // the same
			chain("FLANNEL-POSTRTG"),    // flannel-io/flannel pkg/trafficmngr/iptables/iptables.go
			chain("filter/FLANNEL-FWD"), // the same
		},
	},
	{
		Component: Component{"kube-router", "kube-router", Fine, "as CNI plugin and policy engine"},
		signs: []sign{
			process("kube-router"),        // cloudnativelabs/kube-router cmd/kube-router
			link("kube-bridge"),           // pkg/controllers/routing/network_routes_controller.go
			chain("filter/KUBE-ROUTER-*"), // pkg/controllers/netpol/network_policy_controller.go
			chain("filter/KUBE-NWPLCY-*"), // the same
			chain("filter/KUBE-POD-FW-*"), // the same
		},
		modes: []entry{{
			Component: Component{"kube-router-proxy", "kube-router, as Service proxy", Conflict, "start it with --run-service-proxy=false"},
			// pkg/controllers/proxy/network_services_controller.go (KubeDummyIf, ipvsFirewallChainName)
			signs: []sign{link("kube-dummy-if"), chain("filter/KUBE-ROUTER-SERVICES")},
		}},
	},
	{
		Component: Component{"antrea", "Antrea", Fine, "with antreaProxy.proxyAll=false, its default"},
		signs: []sign{
			plugin("antrea"),        // antrea-io/antrea cmd/antrea-cni
			process("antrea-agent"), // antrea-io/antrea cmd/antrea-agent
			link("antrea-gw0"),      // antrea-io/antrea cmd/antrea-agent/options.go (defaultHostGateway)
			chain("ANTREA-*"),       // antrea-io/antrea pkg/agent/route/route_linux.go
		},
		modes: []entry{{
			Component: Component{"antrea-proxy", "Antrea, as Service proxy", Conflict, "it is a Service proxy itself: set antreaProxy.proxyAll=false"},
			signs:     []sign{chain("nat/ANTREA-OUTPUT")}, // pkg/agent/route/route_linux.go (syncIPTables, proxyAll)
		}},
	},
	{
		Component: Component{"aws-vpc-cni", "AWS VPC CNI", Fine, ""},
		signs: []sign{
			plugin("aws-cni"),                 // aws/amazon-vpc-cni-k8s misc/10-aws.conflist
			process("aws-k8s-agent"),          // aws/amazon-vpc-cni-k8s cmd/aws-k8s-agent
			chain("nat/AWS-SNAT-CHAIN-*"),     // aws/amazon-vpc-cni-k8s pkg/networkutils/network.go
			chain("nat/AWS-CONNMARK-CHAIN-*"), // the same
		},
	},
	{
		Component: Component{"azure-cni", "Azure CNI", Fine, ""},
		signs: []sign{
			plugin("azure-vnet*"),      // Azure/azure-container-networking cni/azure-linux.conflist
			process("azure-cns"),       // Azure/azure-container-networking cns/service
			link("azv*"),               // Azure/azure-container-networking network/endpoint_linux.go (hostVEthInterfacePrefix)
			chain("filter/AZURECNI*"),  // Azure/azure-container-networking iptables/iptables.go
			chain("filter/AZURE-NPM*"), // Azure/azure-container-networking npm/util/const.go
		},
	},
	{
		Component: Component{"ovn-kubernetes", "OVN-Kubernetes", Conflict, "it is a Service proxy itself"},
		signs: []sign{
			plugin("ovn-k8s-cni-overlay"), // ovn-kubernetes/ovn-kubernetes go-controller/pkg/config/config.go
			link("ovn-k8s-mp0"),           // ovn-kubernetes/ovn-kubernetes go-controller/pkg/types/const.go
			table("ovn-kubernetes"),       // go-controller/pkg/node/nftables/helpers.go (OVNKubernetesNFTablesName)
			chain("nat/OVN-KUBE-*"),       // go-controller/pkg/node/gateway_iptables.go (iptableNodePortChain)
		},
	},
	{
		Component: Component{"portmap", "portmap", Fine, ""},
		signs:     []sign{plugin("portmap")}, // containernetworking/plugins plugins/meta/portmap
		modes: []entry{
			{
				Component: Component{"portmap-nftables", "portmap (nftables)", Fine, ""},
				signs:     []sign{table("cni_hostport")}, // plugins/meta/portmap/portmap_nftables.go
			},
			{
				Component: Component{"portmap-iptables", "portmap (iptables)", Fine, ""},
				signs:     []sign{chain("nat/CNI-HOSTPORT-DNAT")}, // plugins/meta/portmap/portmap_iptables.go
			},
		},
	},
	{
		Component: Component{Bridge, "bridge CNI plugin", Fine, ""},
		signs: []sign{
			plugin("bridge"),                // containernetworking/plugins plugins/main/bridge
			table("cni_plugins_masquerade"), // containernetworking/plugins pkg/ip/ipmasq_nftables_linux.go
			link("cni0"),                    // containernetworking/plugins plugins/main/bridge/bridge.go (defaultBrName)
		},
	},
	{
		Component: Component{"node-local-dns", "node-local-dns", Fine, ""},
		signs: []sign{
			process("node-cache"), // kubernetes/dns cmd/node-cache
			link("nodelocaldns"),  // kubernetes/dns cmd/node-cache/main.go (interfacename)
		},
	},
}

// meshes are service meshes.
var meshes = []entry{
	{
		Component: Component{"istio-ambient", "Istio (ambient)", Fine, ""},
		signs: []sign{
			podProcess("ztunnel"),     // istio/ztunnel
			chain("nat/ISTIO_POSTRT"), // istio/istio cni/pkg/iptables/iptables.go (ChainHostPostrouting)
			table("istio-ambient-*"),  // istio/istio cni/pkg/nftables/nftables.go
		},
	},
	{
		Component: Component{"istio-sidecar", "Istio (sidecar)", Fine, "its rules are in the network namespaces of pods"},
		signs: []sign{
			podProcess("pilot-agent"), // istio/istio pilot/cmd/pilot-agent
			plugin("istio-cni"),       // istio/istio cni/cmd/istio-cni
		},
	},
	{
		Component: Component{"linkerd-cni", "Linkerd", Fine, "its rules are in the network namespaces of pods"},
		signs: []sign{
			plugin("linkerd-cni"),        // linkerd/linkerd2-proxy-init cni-plugin
			podProcess("linkerd2-proxy"), // linkerd/linkerd2-proxy
		},
	},
}

// balancers announce addresses of Services to the network.
var balancers = []entry{
	{
		Component: Component{"metallb", "MetalLB", Fine, ""},
		signs:     []sign{process("speaker")}, // metallb/metallb speaker
	},
	{
		Component: Component{"kube-vip", "kube-vip", Fine, ""},
		signs:     []sign{process("kube-vip")}, // kube-vip/kube-vip
	},
	{
		Component: Component{"keepalived", "keepalived", Fine, ""},
		signs: []sign{
			process("keepalived"), // acassen/keepalived
			table("keepalived"),   // acassen/keepalived keepalived/include/vrrp_nftables.h (DEFAULT_NFTABLES_TABLE)
		},
	},
}

// firewalls are programs that come with the node's distribution, or the administrator's own.
var firewalls = []entry{
	{
		Component: Component{"docker", "Docker", Fine, ""},
		signs: []sign{
			process("dockerd"),          // moby/moby cmd/dockerd
			link("docker0"),             // moby/moby daemon/libnetwork/drivers/bridge
			table("docker-bridges"),     // moby/moby daemon/libnetwork/drivers/bridge/internal/nftabler
			chain("filter/DOCKER-USER"), // moby/moby daemon/libnetwork/firewall_linux.go
		},
	},
	{
		Component: Component{"firewalld", "firewalld", Fine, ""},
		signs:     []sign{table("firewalld"), process("firewalld")}, // firewalld/firewalld src/firewall/core/nftables.py (TABLE_NAME)
	},
	{
		Component: Component{"ufw", "ufw", Needs, `needs DEFAULT_FORWARD_POLICY="ACCEPT", or rules for the range of pods`},
		signs:     []sign{chain("filter/ufw-before-input"), chain("filter/ufw6-before-input")}, // ufw conf/before.rules
	},
	{
		Component: Component{"nftables-service", "nftables.service", Fine, ""},
		signs:     []sign{table("inet filter")}, // Debian's nftables package: /etc/nftables.conf
	},
	{
		Component: Component{"fail2ban", "fail2ban", Fine, ""},
		signs: []sign{
			process("fail2ban-server"), // fail2ban/fail2ban bin/fail2ban-server
			table("f2b-table"),         // fail2ban/fail2ban config/action.d/nftables.conf
			chain("filter/f2b-*"),      // fail2ban/fail2ban config/action.d/iptables.conf
		},
	},
	{
		Component: Component{"tailscale", "Tailscale", Fine, ""},
		signs: []sign{
			process("tailscaled"),      // tailscale/tailscale cmd/tailscaled
			link("tailscale*"),         // tailscale/tailscale cmd/tailscaled/tailscaled.go (defaultTunName)
			chain("filter/ts-forward"), // tailscale/tailscale util/linuxfw
		},
	},
}
