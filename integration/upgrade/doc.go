// Package upgrade tests that a node can go from one version of kube-vmap to the next one and
// back, while clients use its Services: established connections, remembered clients and
// counted connections are kept.
//
//	testdata/VERSION/ruleset.batch  the rule set that VERSION makes of the Services of newServices,
//	                                as the netlink messages that load it, compressed
//
//	the rule set of VERSION --> this version --> VERSION, built from git
//	clients connect all the while, and questions in lasting connections are answered
//
// The messages are needed because nft neither lists nor loads the fingerprints of rules, by
// which a version recognizes its own. A release adds its rule set before it is tagged,
// and its name to the list of versions:
//
//	go test ./integration/upgrade -run Record -record v0.2.0
package upgrade
