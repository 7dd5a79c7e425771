package plane

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strings"
)

// Kubectl runs kubectl as one who may do anything and returns what it prints.
func (p *Plane) Kubectl(ctx context.Context, args ...string) (string, error) {
	return p.KubectlAs(ctx, p.AdminKubeconfig(), args...)
}

// KubectlAs is [Plane.Kubectl] with another kubeconfig, which must be for
// [Plane.URL].
func (p *Plane) KubectlAs(ctx context.Context, kubeconfig string, args ...string) (string, error) {
	all := append([]string{"--kubeconfig=" + kubeconfig, "--cache-dir=" + p.file("kubectl")}, args...)
	cmd := p.options.Host.Command(ctx, filepath.Join(p.programs, "kubectl"), all...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("kubectl %s: %w\n%s%s", strings.Join(args, " "), err, &stdout, &stderr)
	}
	return stdout.String(), nil
}
