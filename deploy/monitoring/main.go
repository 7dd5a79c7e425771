// Command monitoring makes what can be made of the files for Prometheus and Grafana,
// so that nothing stands in two places:
//
//	rules.yaml ------> prometheusrule.yaml   the same rules as an object of the operator
//	panels.go -------> dashboard.json        what Grafana imports
//
// `make monitoring` runs it. The tests beside it hold these files, and the rest of the
// folder, against the metrics that the proxy really has. It is a module of its own,
// because they read PromQL with Prometheus' own parser.
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

// write makes the files in a folder anew.
func write(folder string) error {
	files, err := made(folder)
	if err != nil {
		return err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o644); err != nil {
			return fmt.Errorf("write what was made: %w", err)
		}
	}
	return nil
}

// made are the files that are made, by name, from what is in a folder.
func made(folder string) (map[string][]byte, error) {
	rules, err := os.ReadFile(filepath.Join(folder, "rules.yaml"))
	if err != nil {
		return nil, fmt.Errorf("read the rules: %w", err)
	}
	board, err := dashboard()
	if err != nil {
		return nil, fmt.Errorf("write the dashboard as JSON: %w", err)
	}
	return map[string][]byte{"prometheusrule.yaml": prometheusRule(rules), "dashboard.json": board}, nil
}
