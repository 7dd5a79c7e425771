package config

import (
	"fmt"
	"io"

	"sigs.k8s.io/yaml"
)

// Write writes the configuration as a file that --config reads, with every
// default. What has no field is not in it: --master, the flags that are our own,
// and servers that flags have turned off.
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
