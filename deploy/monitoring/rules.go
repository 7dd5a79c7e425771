package main

import "strings"

// head is what a PrometheusRule has before its rules.
const head = `# Made from rules.yaml by ` + "`make monitoring`" + `; change it there.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: kube-vmap
  namespace: kube-system
  labels:
    app.kubernetes.io/name: kube-vmap
spec:
`

// prometheusRule is a file of rules as an object of the Prometheus operator: its
// content, comments included, moved in below spec.
func prometheusRule(rules []byte) []byte {
	text := string(rules)
	text = text[strings.Index(text, "groups:"):] // what stands before is about the file
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
