// Package monitoring tests the files for Prometheus and Grafana in this folder: that their
// queries have metrics and labels that the proxy has, that each alert fires when it should and
// has a runbook, and that the operator's rules are the ones of rules.yaml. It is a module of its
// own because it needs Prometheus' parser of PromQL.
package monitoring
