// Package matrix holds the tests of what packets meet on their way to a Service:
// who may answer, whom the server sees, what is refused and what is silent. The
// built kube-vmap runs in the namespace of a lab's node on a folder of manifests.
//
//	 pod-4, pod-1 itself -----+                 +---> pod-1, pod-2, pod-3
//	 the node, also from -----+--> node-1 ------+
//	 its other address        |   kube-vmap     +---> remote-1, remote-2
//	 somebody outside --------+                       behind node-2
//
//	by ClusterIP, NodePort (at two addresses), LB VIP or external IP
//	over TCP, UDP or SCTP, over IPv4 or IPv6
//
// TestEveryWayFromABridgeIsAsTheTablesSay asks the same where the pods of each node are
// on a bridge that calls the hooks of IP (net.bridge.bridge-nf-call-iptables=1), as on
// nodes of kubeadm.
//
// Every cell of the matrix comes from two tables in table_test.go that people
// read, too: who reaches which endpoints under which policy and as whom, and
// which endpoints there are to reach. matrix_test.go multiplies them with each
// other, with protocols and families, and with the ways to run the proxy. What
// is not of that form has tests of its own beside it.
//
// # Who says that the tables are right
//
// kube-proxy does. With the path of a kube-proxy (as .ci/cluster builds it) in
// the environment variable KUBE_VMAP_JUDGE, all tests here are about that program
// instead, in mode nftables, with an API server that holds the same manifests:
//
//	KUBE_VMAP_JUDGE=$PWD/.cache/cluster/kube-proxy go test -count=1 ./integration/matrix
//
// Skipped then is only what kube-proxy does otherwise, with the reason.
//
// # Kube-proxy's scenarios
//
// kube-proxy's tests of its mode nftables (pkg/proxy/nftables/proxier_test.go of
// 1.36) trace packets through a simulated rule set. These have the same
// scenarios on the real kernel:
//
//	TestOverallNFTablesRules
//		matrix.TestEveryWayToAServiceIsAsTheTablesSay
//		matrix.TestSourceRangesLimitWhoReachesALoadBalancerAddress
//		ruleset.TestTheKernelHoldsWhatTheGoldenShows
//	TestNoEndpointsReject
//		matrix.TestEveryWayToAServiceIsAsTheTablesSay
//		proxy.TestOrdinaryTCPClientsAreRefusedAtOnce
//	TestClusterIPGeneral
//		matrix.TestPortsOfAServiceDoNotMeet
//		matrix.TestEveryWayToAServiceIsAsTheTablesSay
//		proxy.TestWhatNoServiceOffersIsNotReached
//	TestLoadBalancer
//		matrix.TestSourceRangesLimitWhoReachesALoadBalancerAddress
//		matrix.TestANodeThatHoldsTheAddressIsAllowedWithIt
//	TestNodePorts
//		matrix.TestNodePortsAreServedAtTheListedAddressesOnly
//	TestExternalTrafficPolicyLocal
//	TestExternalTrafficPolicyCluster
//	TestInternalExternalMasquerade
//		matrix.TestEveryWayToAServiceIsAsTheTablesSay, its 27 flows included
//	TestInternalTrafficPolicy
//	TestTerminatingEndpointsTrafficPolicyLocal
//	TestTerminatingEndpointsTrafficPolicyCluster
//		matrix.TestEveryWayToAServiceIsAsTheTablesSay
//		matrix.TestEndpointsGoAndComeBackForEveryAddress
//	TestHealthCheckNodePortWhenTerminating
//		model.TestAHealthCheckCountsAddressesOfReadyEndpointsOfThisNode
//		healthcheck.TestHealthCheckResponsesAreThoseOfKubeProxy
//	TestNoEndpointsMetric
//		matrix.TestPortsThatOtherNodesServeAreCounted
//	TestLoadBalancerIngressRouteTypeProxy
//		matrix.TestIPModeProxyLeavesTheAddressToItsLoadBalancer
//	TestSyncProxyRulesRepeated
//		ruleset.TestAHistoryOfChangesLeavesWhatAFreshStartWouldMake
//		ruleset.TestReplacingAnEndpointCostsTheSameAmongAllServices
//		matrix.TestPortsChangeWhileOthersAreAsked
//	TestSyncProxyRulesStartup
//		proxy.TestRestartWithoutChangesWritesNothing
//		proxy.TestRestartSendsOnlyWhatChangedMeanwhile
//	TestProxier_OnServiceCIDRsChanged
//		matrix.TestServiceCIDRsTellWhichAddressesAreNobodys
//	TestBadIPs
//		matrix.TestLeadingZerosInAddressesAreDecimal
//	Test_servicePortChainNameBase, Test_servicePortEndpointChainNameBase
//		nothing: there are no chains or sets of a Service, see
//		ruleset.TestNoChainSetOrRulePerService
//	TestBuildServiceMapAddRemove, ...ServiceHeadless, ...ServiceTypeExternalName, ...ServiceUpdate
//		matrix.TestAServiceChangesItsTypeInPlace
//		matrix.TestServicesShareAnAddressByPortAndProtocol
//		convert.TestSomeServicesAreNobodysBusiness
//	TestUpdateEndpointsMap
//		matrix.TestPortsChangeWhileOthersAreAsked
//		matrix.TestEndpointsGoAndComeBackForEveryAddress
//		proxy.TestClusterIPsAnswerAsTheTableSays
//		ruleset.TestAHistoryOfChangesLeavesWhatAFreshStartWouldMake
package matrix
