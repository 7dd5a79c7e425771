package metrics

import (
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// registerBuild registers metrics with the versions. People use kubernetes_build_info to
// find components of different versions; its labels for the commit and date of
// Kubernetes' build are empty.
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

// Kubernetes returns the release of the Kubernetes libraries in this program, such as
// v1.37.2, or an empty string if the build info lacks it.
func Kubernetes() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	return kubernetesOf(info.Deps)
}

// kubernetesOf returns the Kubernetes release of a module list: libraries v0.x.y belong
// to Kubernetes v1.x.y.
func kubernetesOf(modules []*debug.Module) string {
	for _, m := range modules {
		if version, released := strings.CutPrefix(m.Version, "v0."); m.Path == "k8s.io/client-go" && released {
			return "v1." + version
		}
	}
	return ""
}
