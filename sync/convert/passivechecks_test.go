package convert

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"kube-vmap/model"
)

func TestPassiveHealthChecksAnnotation(t *testing.T) {
	for value, want := range map[string]model.PassiveChecks{
		"": model.PassiveChecksDefault, "off": model.PassiveChecksOff, "report": model.PassiveChecksReport,
		"avoid": model.PassiveChecksAvoid, "Avoid": model.PassiveChecksDefault, "default": model.PassiveChecksDefault,
	} {
		got, errs := Service(service(func(s *corev1.Service) {
			s.Annotations = map[string]string{"kube-vmap.io/passive-health-checks": value}
		}))
		check(t, value, wantService(func(s *model.Service) { s.PassiveChecks = want }), got)
		invalid := want == model.PassiveChecksDefault && value != ""
		if invalid != (len(errs) == 1) || invalid && errs[0].Field != "metadata.annotations[kube-vmap.io/passive-health-checks]" {
			t.Errorf("%s: errors %v", value, errs)
		}
	}
}
