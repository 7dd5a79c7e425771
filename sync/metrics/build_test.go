package metrics

import (
	"runtime/debug"
	"testing"
)

func TestKubernetesVersionOfModules(t *testing.T) {
	for version, want := range map[string]string{
		"v0.36.3": "v1.36.3", "v0.37.0-rc.1": "v1.37.0-rc.1", "v1.5.2": "", "(devel)": "", "": "",
	} {
		modules := []*debug.Module{{Path: "k8s.io/klog/v2", Version: "v0.1.0"}, {Path: "k8s.io/client-go", Version: version}}
		if got := kubernetesOf(modules); got != want {
			t.Errorf("with client-go %s, it is %q, want %q", version, got, want)
		}
	}
	if got := kubernetesOf(nil); got != "" {
		t.Errorf("without libraries, it is %q", got)
	}
}
