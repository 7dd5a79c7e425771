package main

import "strings"

// head precedes the rules in a PrometheusRule.
const head = `# Generated from rules.yaml by ` + "`make monitoring`" + `; edit that file.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: kube-vmap
  namespace: kube-system
  labels:
    app.kubernetes.io/name: kube-vmap
spec:
`

// prometheusRule returns a file of rules as a PrometheusRule: its content, including
// comments, indented below spec.
func prometheusRule(rules []byte) []byte {
	_, groups, _ := strings.Cut(string(rules), "groups:") // without the comments about the file
	text := "groups:" + groups
	var out strings.Builder
	out.WriteString(head)
	for line := range strings.Lines(text) {
		if line != "\n" {
			line = "  " + line
		}
		out.WriteString(line)
	}
	return []byte(out.String())
}
