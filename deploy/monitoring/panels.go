package main

import "slices"

// A row is a heading of the dashboard with the panels below it.
type row struct {
	title  string
	panels []panel
}

// A panel is a graph, a number or a table.
type panel struct {
	kind         kind
	title, about string
	unit         string // in Grafana's names
	none         bool   // the number should be zero
	queries      []query
}

// A kind is how a panel shows its data, in Grafana's names.
type kind string

const (
	number kind = "stat"
	lines  kind = "timeseries"
	table  kind = "table"
)

// A query is a PromQL query, in which $sel means [selector], and the legend of its lines.
type query struct{ expr, legend string }

func rows() []row {
	return []row{
		{"Health", slices.Concat(numbers(), health())},
		{"From a change to the kernel", changes()},
		{"Syncs", syncs()},
		{"Services", services()},
		{"Problems", faults()},
		{"Processes", processes()},
	}
}

func numbers() []panel {
	one := func(title, about, expr string, none bool) panel {
		return panel{kind: number, title: title, about: about, unit: "short", none: none, queries: []query{{expr, ""}}}
	}
	return []panel{
		one("Nodes", "On which kube-vmap responds.", `count(kubevmap_build_info{$sel})`, false),
		one("Nodes that do not respond", "Of those that are scraped.", `count(up{$sel} == 0) or vector(0)`, true),
		one("Services", "Known to a node.", `max(kubevmap_services{$sel})`, false),
		one("Endpoints", "Of all Service ports, programmed on a node.", `max(kubevmap_endpoints{$sel})`, false),
		one("Invalid objects", "Skipped or kept in their previous state because of invalid values. Their events say why.",
			`max(kubevmap_refused_objects{$sel})`, true),
		one("Addresses in conflict", "Claimed by more than one Service.", `max(kubevmap_address_conflicts{$sel})`, true),
	}
}

func health() []panel {
	return []panel{
		{
			title: "Probes answered with 503", kind: lines, unit: "reqps",
			about: "/healthz is for load balancers: they should not use the node. /livez is for kubelet: changes have been pending for too long.",
			queries: []query{
				{`sum by (instance) (rate(kubeproxy_proxy_healthz_total{$sel, code="503"}[$__rate_interval])) > 0`, "{{instance}} healthz"},
				{`sum by (instance) (rate(kubeproxy_proxy_livez_total{$sel, code="503"}[$__rate_interval])) > 0`, "{{instance}} livez"},
			},
		},
		{
			title: "Time since the last commit, with pending changes", kind: lines, unit: "s",
			about: "Empty if no changes are pending. From 60 s on (twice the sync period), /livez fails.",
			queries: []query{{
				`max by (instance) ((time() - kubeproxy_sync_proxy_rules_last_timestamp_seconds{$sel})` +
					` and kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds{$sel} > kubeproxy_sync_proxy_rules_last_timestamp_seconds{$sel})`,
				"{{instance}}",
			}},
		},
	}
}

func changes() []panel {
	return []panel{
		{
			title: "Programming latency", kind: lines, unit: "s",
			about:   "From the change of a pod or Service until it is committed, including the API server's part. It compares the clocks of two machines.",
			queries: quantiles("kubeproxy_network_programming_duration_seconds", ""),
		},
		{
			title: "Programming latency by node, 99 %", kind: lines, unit: "s",
			about: "The ten slowest.",
			queries: []query{{
				`topk(10, histogram_quantile(0.99, sum by (instance, le) (rate(kubeproxy_network_programming_duration_seconds_bucket{$sel}[$__rate_interval]))))`,
				"{{instance}}",
			}},
		},
		{
			title: "Changes received", kind: lines, unit: "ops",
			about: "By all nodes.",
			queries: []query{
				{`sum(rate(kubeproxy_sync_proxy_rules_service_changes_total{$sel}[$__rate_interval]))`, "Services"},
				{`sum(rate(kubeproxy_sync_proxy_rules_endpoint_changes_total{$sel}[$__rate_interval]))`, "EndpointSlices"},
			},
		},
		{
			title: "Pending changes", kind: lines, unit: "short",
			about: "Received, but not committed to the kernel.",
			queries: []query{
				{`sum by (instance) (kubeproxy_sync_proxy_rules_service_changes_pending{$sel}) > 0`, "{{instance}} Services"},
				{`sum by (instance) (kubeproxy_sync_proxy_rules_endpoint_changes_pending{$sel}) > 0`, "{{instance}} EndpointSlices"},
			},
		},
	}
}

// quantiles returns queries for the median and the 99th percentile of a histogram.
func quantiles(histogram, what string) []query {
	if what != "" {
		what += ", "
	}
	of := ` sum by (le) (rate(` + histogram + `_bucket{$sel}[$__rate_interval])))`
	return []query{
		{`histogram_quantile(0.5,` + of, what + "50 %"},
		{`histogram_quantile(0.99,` + of, what + "99 %"},
	}
}

func syncs() []panel {
	return []panel{
		{
			title: "Sync latency", kind: lines, unit: "s",
			about: "Full: everything is compared with the kernel, as at the start and after errors. Partial: changes only.",
			queries: slices.Concat(
				quantiles("kubeproxy_sync_partial_proxy_rules_duration_seconds", "partial"),
				quantiles("kubeproxy_sync_full_proxy_rules_duration_seconds", "full"),
			),
		},
		{
			title: "Kernel time", kind: lines, unit: "s",
			about: "Time to commit a batch, and to encode it.",
			queries: slices.Concat(
				quantiles("kubevmap_kernel_duration_seconds", "kernel"),
				quantiles("kubevmap_encode_duration_seconds", "encoding"),
			),
		},
		{title: "Batch size", kind: lines, unit: "bytes", about: "Sent to the kernel in a sync.", queries: quantiles("kubevmap_batch_size_bytes", "")},
		{title: "Batch messages", kind: lines, unit: "short", about: "Netlink messages in a batch.", queries: quantiles("kubevmap_batch_messages", "")},
		{
			title: "Kernel changes", kind: lines, unit: "ops",
			about: "Elements of sets and maps. Objects are tables, chains, rules, sets and maps.",
			queries: []query{
				{`sum by (operation) (rate(kubevmap_element_changes_total{$sel}[$__rate_interval]))`, "elements: {{operation}}"},
				{`sum(rate(kubevmap_object_changes_total{$sel}[$__rate_interval]))`, "objects"},
				{`sum(rate(kubevmap_transactions_total{$sel}[$__rate_interval]))`, "transactions"},
			},
		},
		{
			title: "Failed syncs", kind: lines, unit: "ops",
			about: "After each, everything is compared with the kernel and retried.",
			queries: []query{{
				`sum by (instance) (rate(kubeproxy_sync_proxy_rules_nftables_sync_failures_total{$sel}[$__rate_interval])) > 0`, "{{instance}}",
			}},
		},
	}
}

func services() []panel {
	const rate = `sum by (namespace, service, port, protocol, ip_family) (rate(kubevmap_service_connections_total{$sel}[$__rate_interval]))`
	return []panel{
		{
			title: "New connections by Service", kind: lines, unit: "cps",
			about:   "The ten Service ports with the most, from all selected nodes. Empty with --count-connections=false.",
			queries: []query{{`topk(10, ` + rate + `)`, "{{namespace}}/{{service}} {{port}} {{protocol}} {{ip_family}}"}},
		},
		{
			title: "Service ports with the most new connections", kind: table, unit: "cps",
			about:   "The same as a table, of the last minutes.",
			queries: []query{{`topk(50, ` + rate + `)`, ""}},
		},
		{
			title: "Connection counters", kind: lines, unit: "short",
			about: "In the kernel, at most 131,072 for an IP family; and series that are skipped because there are too many.",
			queries: []query{
				{`topk(10, kubevmap_connection_counters{$sel})`, "{{instance}} {{ip_family}}"},
				{`kubevmap_connection_series_left_out{$sel} > 0`, "{{instance}} skipped"},
			},
		},
		{
			title: "Connections by endpoint", kind: lines, unit: "cps",
			about: "The ten with the most. Empty without --endpoint-metrics.",
			queries: []query{{
				`topk(10, sum by (namespace, service, port, endpoint) (rate(kubevmap_endpoint_connections_total{$sel}[$__rate_interval])))`,
				"{{namespace}}/{{service}} {{port}} {{endpoint}}",
			}},
		},
		{
			title: "Flows deleted", kind: lines, unit: "ops",
			about: "Connection tracking entries deleted because their endpoint was removed.",
			queries: []query{{
				`sum by (ip_family) (rate(kubeproxy_conntrack_reconciler_deleted_entries_total{$sel}[$__rate_interval]))`, "{{ip_family}}",
			}},
		},
		{
			title: "Time to delete flows", kind: lines, unit: "s",
			about:   "After syncs that remove endpoints with flows, on another goroutine.",
			queries: quantiles("kubeproxy_conntrack_reconciler_sync_duration_seconds", ""),
		},
	}
}

func faults() []panel {
	return []panel{
		{
			title: "Invalid, refused and in conflict", kind: lines, unit: "short",
			about: "Objects with invalid values and addresses claimed twice, the maximum of all nodes; Service ports that a node's kernel refuses.",
			queries: []query{
				{`max(kubevmap_refused_objects{$sel})`, "invalid objects"},
				{`max(kubevmap_address_conflicts{$sel})`, "addresses in conflict"},
				{`kubevmap_refused_service_ports{$sel} > 0`, "{{instance}} ports refused by the kernel"},
			},
		},
		{
			title: "Table repairs", kind: lines, unit: "short",
			about:   "Reverted changes of other programs. Not possible where the tables are protected.",
			queries: []query{{`sum by (instance) (increase(kubevmap_drift_repairs_total{$sel}[$__rate_interval])) > 0`, "{{instance}}"}},
		},
		{
			title: "Clients without affinity", kind: lines, unit: "cps",
			about: "Connections to Services with session affinity while the map was full.",
			queries: []query{{
				`sum by (instance, ip_family) (rate(kubevmap_affinity_full_connections_total{$sel}[$__rate_interval])) > 0`, "{{instance}} {{ip_family}}",
			}},
		},
		{
			title: "Service ports without endpoints on the node", kind: lines, unit: "short",
			about: "With traffic policy Local. External: load balancers skip such nodes. Internal: pods of the node are not served.",
			queries: []query{{
				`sum by (instance, traffic_policy, ip_family) (kubeproxy_sync_proxy_rules_no_local_endpoints_total{$sel}) > 0`,
				"{{instance}} {{traffic_policy}} {{ip_family}}",
			}},
		},
	}
}

func processes() []panel {
	return []panel{
		{
			title: "CPU", kind: lines, unit: "short", about: "Processors in use.",
			queries: []query{{`rate(process_cpu_seconds_total{$sel}[$__rate_interval])`, "{{instance}}"}},
		},
		{
			title: "Memory", kind: lines, unit: "bytes", about: "Resident, without the kernel's part.",
			queries: []query{{`process_resident_memory_bytes{$sel}`, "{{instance}}"}},
		},
		{
			title: "Requests to the API server", kind: lines, unit: "reqps", about: "By status of the response.",
			queries: []query{{`sum by (code) (rate(rest_client_requests_total{$sel}[$__rate_interval]))`, "{{code}}"}},
		},
		{
			title: "Versions", kind: lines, unit: "short", about: "Nodes by version.",
			queries: []query{{`count by (version) (kubevmap_build_info{$sel})`, "{{version}}"}},
		},
	}
}
