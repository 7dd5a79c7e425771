package metrics

import (
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// registerBuild registers constants that tell what was built. By
// kubernetes_build_info people find the parts of a cluster that are of another
// version than the rest; what kube-proxy tells there of its own build beyond the
// version has no counterpart and is empty.
func registerBuild(r prometheus.Registerer, c Config) {
	constant := func(name, help string, labels prometheus.Labels) {
		promauto.With(r).NewGauge(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels}).Set(1)
	}
	constant("kubevmap_build_info", "Always 1, with the version of kube-vmap.",
		prometheus.Labels{"version": c.Version, "go_version": runtime.Version()})
	if c.Kubernetes == "" {
		return
	}
	major, rest, _ := strings.Cut(strings.TrimPrefix(c.Kubernetes, "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	constant("kubernetes_build_info", "Always 1, with the version of the Kubernetes libraries in use.",
		prometheus.Labels{
			"major": major, "minor": minor, "git_version": c.Kubernetes, "git_commit": "", "git_tree_state": "",
			"build_date": "", "go_version": runtime.Version(), "compiler": runtime.Compiler,
			"platform": runtime.GOOS + "/" + runtime.GOARCH,
		})
}

// Kubernetes is the release of the Kubernetes libraries that this program was
// built with, such as v1.36.3; empty if it was built without noting that.
func Kubernetes() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	return kubernetesOf(info.Deps)
}

// kubernetesOf is the Kubernetes release that a module list holds: its libraries
// are v0.x.y where it is v1.x.y.
func kubernetesOf(modules []*debug.Module) string {
	for _, m := range modules {
		if version, released := strings.CutPrefix(m.Version, "v0."); m.Path == "k8s.io/client-go" && released {
			return "v1." + version
		}
	}
	return ""
}
