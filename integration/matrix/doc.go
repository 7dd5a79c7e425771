// Package matrix tests what happens to packets to Services: which endpoints answer,
// which source address the server sees, what is refused and what is dropped. The built
// kube-vmap runs in the namespace of a lab's node on a folder of manifests.
//
//	 pod-4, pod-1 itself -----+                 +---> pod-1, pod-2, pod-3
//	 the node, also from -----+--> node-1 ------+
//	 its other address        |   kube-vmap     +---> remote-1, remote-2
//	 a host outside ----------+                       behind node-2
//
//	by ClusterIP, NodePort (at two addresses), load balancer IP or external IP
//	over TCP, UDP or SCTP, over IPv4 or IPv6
//
// TestMatrixWithBridgedPods tests the same if the pods of each node are on a bridge
// whose packets pass the IP hooks (net.bridge.bridge-nf-call-iptables=1), as on nodes
// of kubeadm.
//
// The cells of the matrix come from tables in table_test.go: which client reaches which
// endpoints under which policy and with which source; which endpoints exist, with their
// conditions and weights; and which of them a scheduler or session affinity chooses.
// matrix_test.go multiplies these with each other, with protocols and families, and
// with configurations of the proxy. A client with affinity keeps its endpoint through all
// of these. Other tests are for what has another form.
//
// # Verifying the tables
//
// The tests can run kube-proxy in mode nftables instead of kube-vmap, with an API
// server that has the same objects. The environment variable
// KUBE_VMAP_MATRIX_KUBE_PROXY is the path of a kube-proxy. All tests pass with the
// one that .ci/cluster builds (1.36 rejects some values of --nodeport-addresses):
//
//	KUBE_VMAP_MATRIX_KUBE_PROXY=$PWD/.cache/cluster/kube-proxy go test -count=1 ./integration/matrix
//
// Only tests for differences from kube-proxy are skipped then, with the reason, and cells
// with weights or schedulers, which it does not have.
//
// # Kube-proxy's scenarios
//
// kube-proxy's tests of its mode nftables (pkg/proxy/nftables/proxier_test.go of
// 1.37) trace packets through a simulated rule set. These tests have the same
// scenarios on the real kernel:
//
//	TestNoEndpointsReject, TestExternalTrafficPolicyLocal, TestExternalTrafficPolicyCluster,
//	TestInternalExternalMasquerade (27 flows), TestInternalTrafficPolicy, TestEndpointDNATRules,
//	TestTerminatingEndpointsTrafficPolicyLocal, TestTerminatingEndpointsTrafficPolicyCluster:
//		matrix.TestMatrix; proxy.TestTCPClientsAreRefusedImmediately
//	TestOverallNFTablesRules: matrix.TestMatrix, ruleset.TestGolden
//	TestClusterIPGeneral: matrix.TestPortsAreIndependent, proxy.TestPingOfServiceAddress
//	TestLoadBalancer: matrix.TestSourceRangesLimitLoadBalancerAddresses,
//		matrix.TestNodeHoldingLoadBalancerAddressIsAllowed
//	TestNodePorts: matrix.TestNodePortsAreServedAtListedAddressesOnly
//	Test_useLocalhostNodePortProxy, TestLocalhostNodePortProxy, TestLocalhostNodePortReject,
//	TestLocalhostNodePortRejectAll: matrix.TestNodePortsOnLocalhostFollowTheFlag
//	TestHealthCheckNodePortWhenTerminating: model.TestHistories,
//		healthcheck.TestHealthCheckResponsesAreThoseOfKubeProxy
//	TestNoEndpointsMetric: model.TestHistories
//	TestLoadBalancerIngressRouteTypeProxy: convert.TestServiceFieldsAreThoseOfKubeProxy
//	TestSyncProxyRulesRepeated: fake.TestHistoriesOnTheRealKernel,
//		ruleset.TestReplacedEndpointCostsTheSameAmongManyServices,
//		crash.TestChangesToOneServiceDisturbNoOther
//	TestSyncProxyRulesStartup: crash.TestRestartWritesNothing
//	TestProxier_OnServiceCIDRsChanged: matrix.TestUnassignedServiceCIDRAddressesAreDropped
//	TestBadIPs: convert.TestServiceFieldsAreThoseOfKubeProxy, convert.TestSlice
//	TestBuildServiceMapAddRemove, ...ServiceHeadless, ...ServiceTypeExternalName, ...ServiceUpdate:
//		matrix.TestServiceTypeChanges, matrix.TestServicesShareAnAddressByPortAndProtocol,
//		convert.TestServiceFieldsAreThoseOfKubeProxy
//	TestUpdateEndpointsMap: matrix.TestMatrix, model.TestHistories,
//		fake.TestHistoriesOnTheRealKernel
//
// Of comments and of chains for each Service there is nothing to test: see
// ruleset.TestNoChainSetOrRulePerService.
package matrix
