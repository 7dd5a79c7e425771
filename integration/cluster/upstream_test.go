package cluster_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"kube-vmap/integration/cluster/clustertest"
)

// TestKubernetesE2EScenariosAreCovered holds this list of what Kubernetes' own
// end-to-end tests ask of a Service proxy against the tests that there are. The
// titles are those of test/e2e/network, in parts by the name before the title. All
// counterparts run in both families, and over TCP, UDP and SCTP where the title does
// not name one. Those in other folders need no API: what a field of the API means to
// packets is proved there, on the rules of one node.
//
// Services:
//
//   - should serve a basic endpoint from pods; should serve multiport endpoints from
//     pods: TestServicesFollowTheirPodsOnEveryNode,
//     TestPortsLeadToTheTargetPortsOfSlices
//   - should be updated after adding or deleting ports:
//     TestPortsLeadToTheTargetPortsOfSlices, and integration/matrix (change_test.go)
//   - should preserve source pod IP for traffic thru service cluster IP; should
//     allow pods to hairpin back to themselves through services:
//     TestPodSourceAddressesAreKept
//   - should be able to up and down services:
//     TestServicesFollowTheirPodsOnEveryNode
//   - should work after the service has been recreated: TestServicesCanBeRecreated
//   - should work after restarting kube-proxy:
//     TestRestartWithoutAPIServerChangesNothing
//   - should work after restarting apiserver:
//     TestRulesSurviveAPIServerFailures
//   - should be able to create a functioning NodePort service; should release
//     NodePorts on delete; should be able to update service type to NodePort
//     listening on same port number but different protocols; should be able to
//     change the type from ExternalName to ClusterIP, from ExternalName to NodePort,
//     from ClusterIP to ExternalName, from NodePort to ExternalName:
//     integration/matrix (change_test.go, general_test.go), and
//     TestServicesAreReachedFromOutside
//   - should be possible to connect to a service via ExternalIP when the external IP
//     is not assigned to a node: TestServicesAreReachedFromOutside
//   - should create endpoints for unready pods; should be able to connect to
//     terminating and unready endpoints if PublishNotReadyAddresses is true; should
//     not be able to if PublishNotReadyAddresses is false:
//     TestPublishNotReadyAddresses
//   - should have session affinity work, session affinity timeout work, and be able
//     to switch session affinity, for service with type clusterIP and for NodePort
//     service: integration/affinity, and integration/matrix (table_test.go)
//   - should implement service.kubernetes.io/service-proxy-name:
//     TestServicesOfOtherProxiesAreIgnored
//   - should implement service.kubernetes.io/headless:
//     TestHeadlessServicesAreIgnored
//   - should be rejected when no endpoints exist; should be rejected for evicted
//     pods: TestServicesWithoutEndpointsRefuseAtEveryAddress
//   - should respect internalTrafficPolicy=Local Pod to Pod; Pod (hostNetwork: true)
//     to Pod; Pod and Node, to Pod (hostNetwork: true): integration/matrix (table_test.go,
//     general_test.go)
//   - should support externalTrafficPolicy=Local for type=NodePort:
//     TestServicesAreReachedFromOutside
//   - should fail health check node port if there are only terminating endpoints;
//     should fallback to terminating endpoints when there are no ready endpoints with
//     internalTrafficPolicy=Cluster, with externallTrafficPolicy=Cluster; should
//     fallback to local terminating endpoints with internalTrafficPolicy=Local, with
//     externalTrafficPolicy=Local: TestTerminatingPodsServeWithoutReadyOnes
//   - should serve endpoints on same port and different protocols; should serve
//     endpoints on same port and different protocol for internal traffic on Type
//     LoadBalancer: TestPortsLeadToTheTargetPortsOfSlices
//   - should allow creating a basic SCTP service with pod and endpoints:
//     TestSCTPServicesDoNotLoadTheKernelsSCTP
//   - should implement NodePort and HealthCheckNodePort correctly when
//     ExternalTrafficPolicy changes:
//     TestHealthCheckNodePortsFollowExternalTrafficPolicy
//   - should connect to the ports exposed by restartable init containers; to the
//     named ports exposed by them; should support named targetPorts that resolve to
//     different ports on different endpoints: TestPortsLeadToTheTargetPortsOfSlices
//   - should prevent NodePort collisions; should check NodePort out-of-range; should
//     find a service from listing all namespaces; should complete a service status
//     lifecycle; should delete a collection of services: none, no proxy has a part in
//     them
//
// LocalhostNodePorts:
//
//   - should proxy localhost NodePort traffic to backends across nodes; should honor
//     sessionAffinity=ClientIP for localhost NodePort: integration/matrix
//     (localhost_test.go), which needs no API
//   - should let a node pull an image from a registry exposed via localhost NodePort:
//     none, that is the container runtime's
//
// Conntrack:
//
//   - should be able to preserve UDP traffic when server pod cycles for a NodePort
//     service; for a ClusterIP service; for a ClusterIP service with
//     InternalTrafficPolicy Local; for a ClusterIP service and client is hostNetwork;
//     when initial unready endpoints get ready; should be able to cleanup conntrack
//     entries when UDP service target port changes for a NodePort service:
//     integration/flows
//   - proxy implementation should not be vulnerable to the invalid conntrack state
//     bug: integration/invalid, which needs no API
//
// KubeProxy:
//
//   - should set TCP CLOSE_WAIT timeout: TestInitOnlyNeedsNoAPIServer
//   - should update metric for tracking accepted packets destined for localhost
//     nodeports: none, it counts what only kube-proxy's iptables mode does
//
// Traffic Distribution, Topology Hints:
//
//   - should route traffic to an endpoint in the same zone when using PreferClose, or
//     PreferSameZone; correctly between pods on multiple nodes when using either; to an
//     endpoint on the same node or fall back to same zone when using PreferSameNode; on
//     the same node when using PreferSameNode and fall back when the endpoint becomes
//     unavailable: TestNodeZoneIsFollowed, model (select_test.go); the controller gives
//     the hints
//   - should distribute endpoints evenly: none, the controller does that by the CPUs
//     of nodes; TestNodeZoneIsFollowed has what a proxy does with its hints
//
// Networking:
//
//   - should check kube-proxy urls: TestHealthzFailsOnDeletedOrTaintedNodes,
//     TestUnusableAPIServerIsLoggedOnceAndRetried
//   - Granular Checks: Services, from pod, node and outside; for multiple
//     endpoint-Services with same selector; update endpoints, update nodePort; for
//     service endpoints using hostNetwork: integration/matrix,
//     TestServicesFollowTheirPodsOnEveryNode; client IP based session
//     affinity: integration/affinity
//   - large requests: none, a proxy decides about the first packet only
//   - should recreate its iptables rules if they are deleted:
//     TestRulesSurviveAPIServerFailures has restarts; what other
//     programs delete is in integration/ruleset
//   - should allow creating a Pod with an SCTP HostPort, and HostPort: none, that is
//     the network plugin's
//
// IPv6DualStack:
//
//   - should create service with ipv4, ipv6, v4,v6 and v6,v4 cluster ip; Granular
//     Checks: Services Secondary IP Family: every other test, which are dual-stack; a
//     family that comes and goes: model (changes_test.go)
//
// Service CIDRs, EndpointSlice, EndpointSliceMirroring:
//
//   - should create Services and serve on different Service CIDRs:
//     TestServicesAreServedInEveryServiceCIDR
//   - should support a Service with multiple ports specified in multiple
//     EndpointSlices; with multiple endpoint IPs specified in multiple EndpointSlices;
//     should mirror a custom Endpoint with multiple subsets and same IP address:
//     TestPortsLeadToTheTargetPortsOfSlices
//   - should mirror a custom Endpoints resource through create update and delete: none,
//     the controller does that, of which TestPortsLeadToTheTargetPortsOfSlices has a case
//
// Connectivity Pod Lifecycle:
//
//   - should be able to have zero downtime on a Blue Green deployment using Services
//     and Readiness Gates: TestRollingUpdatesLoseNoConnection
//   - should be able to connect from a Pod to a terminating Pod, from a terminating
//     Pod; NoSNAT: none, these go from Pod to Pod without a Service, of which
//     TestPodSourceAddressesAreKept has a case
//
// LoadBalancers, LoadBalancers ExternalTrafficPolicy: Local. The test is the cloud
// that gives addresses to a Service:
//
//   - should be able to change the type and ports of a TCP service, of a UDP service;
//     should be able to create LoadBalancer Service without NodePort and change it;
//     should only allow access from service loadbalancer source ranges; should work for
//     type=LoadBalancer; should work from pods: TestServicesAreReachedFromOutside
//   - should only target nodes with endpoints: TestServicesAreReachedFromOutside, and
//     TestSingleFamilyHealthChecksAnswerInBothFamilies, because it asks every
//     address of a node for a single-stack Service, which kube-proxy fails
//   - should have session affinity work, and be able to switch it, for LoadBalancer
//     service with Local and with Cluster traffic policy: integration/affinity
//   - should be able to preserve UDP traffic when server pod cycles for a LoadBalancer
//     service on different nodes, on the same nodes: integration/flows
//   - should not have connectivity disruption during rolling update with
//     externalTrafficPolicy=Cluster, with externalTrafficPolicy=Local:
//     TestRollingUpdatesLoseNoConnection
//   - should target all nodes with endpoints: TestHealthCheckNodePortsFollowExternalTrafficPolicy
//     asks the nodes; to choose among them is the cloud's
//   - should handle load balancer cleanup finalizer for service: none, it is the
//     cloud's
//
// Elsewhere:
//
//   - DaemonRestart: Kube-proxy should recover after being killed accidentally:
//     TestRulesSurviveAPIServerFailures
//   - kube-proxy migration: TestMigrationFromKubeProxyAndBackLosesNoPacket
//   - proxy addon: TestDaemonSetPodsAreAdmitted,
//     TestManifestsCreateTheServiceAccount
//   - Service endpoints latency: none, make bench-cluster measures it
//   - DNS, Proxy: none, a cluster's DNS and the API server's proxy are not there
func TestKubernetesE2EScenariosAreCovered(t *testing.T) {
	list, tests := "", map[string]bool{}
	files, err := filepath.Glob("*_test.go")
	clustertest.Must(t, err)
	for _, name := range files {
		text, err := os.ReadFile(name)
		clustertest.Must(t, err)
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ParseComments)
		clustertest.Must(t, err)
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || !strings.HasPrefix(f.Name.Name, "Test") {
				continue
			}
			tests[f.Name.Name] = true
			if f.Name.Name == t.Name() {
				list = strings.TrimPrefix(f.Doc.Text(), t.Name())
			}
		}
	}
	named := regexp.MustCompile(`\bTest[A-Z]\w+`).FindAllString(list, -1)
	if len(named) == 0 {
		t.Error("the list names no test")
	}
	for _, name := range named {
		if !tests[name] {
			t.Errorf("the list names %s, which there is not", name)
		}
	}
}
