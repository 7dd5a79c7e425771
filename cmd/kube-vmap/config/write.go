package config

import (
	"fmt"
	"io"

	"sigs.k8s.io/yaml"
)

// Write writes the configuration as a file for --config, with all defaults. [Options] and
// disabled servers have no fields in it.
func (c *Config) Write(w io.Writer) error {
	text, err := yaml.Marshal(&c.Proxy)
	if err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	if _, err := w.Write(text); err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	return nil
}
