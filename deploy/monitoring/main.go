// Command monitoring generates files for Prometheus and Grafana:
//
//	rules.yaml ------> prometheusrule.yaml   the same rules for the Prometheus operator
//	panels.go -------> dashboard.json        for import into Grafana
//
// `make monitoring` runs it. The tests compare these files, and the others in the folder,
// with the metrics that the proxy has. It is a module of its own because they need
// Prometheus' parser of PromQL.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if err := write("."); err != nil {
		fmt.Fprintln(os.Stderr, "monitoring:", err)
		os.Exit(1)
	}
}

// write generates the files in a folder.
func write(folder string) error {
	files, err := generate(folder)
	if err != nil {
		return err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o644); err != nil {
			return fmt.Errorf("write generated file: %w", err)
		}
	}
	return nil
}

// generate returns the generated files by name, from those in a folder.
func generate(folder string) (map[string][]byte, error) {
	rules, err := os.ReadFile(filepath.Join(folder, "rules.yaml"))
	if err != nil {
		return nil, fmt.Errorf("read the rules: %w", err)
	}
	board, err := dashboard()
	if err != nil {
		return nil, fmt.Errorf("encode the dashboard: %w", err)
	}
	return map[string][]byte{"prometheusrule.yaml": prometheusRule(rules), "dashboard.json": board}, nil
}
