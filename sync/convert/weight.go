package convert

import (
	"strconv"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"kube-vmap/model"
)

// weightAnnotations give the endpoints of an EndpointSlice a weight. The first one that is there
// counts. The second one is that of Cilium 1.20, so that a cluster that used it keeps its weights.
var weightAnnotations = [...]string{"kube-vmap.io/weight", "service.cilium.io/weight"}

// weight sets the weight of a slice's endpoints. A bad value is ignored: to drain or prefer
// endpoints by mistake would be worse.
func (f *findings) weight(s *model.EndpointSlice, annotations map[string]string) {
	for _, name := range weightAnnotations {
		text, found := annotations[name]
		if !found {
			continue
		}
		n, err := strconv.ParseUint(text, 10, 16)
		if err != nil {
			path := field.NewPath("metadata", "annotations").Key(name)
			f.skip(field.Invalid(path, text, "must be a number from 0 to 65535; 1 is used instead"))
			return
		}
		s.Weight, s.Drained = uint16(n), n == 0
		return
	}
}
