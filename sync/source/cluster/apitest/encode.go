package apitest

import (
	"bytes"
	"io"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
)

// An encoder writes objects in the requested encoding.
type encoder struct{ runtime.SerializerInfo }

func encoderFor(r *http.Request) encoder {
	want := runtime.ContentTypeJSON
	if strings.HasPrefix(r.Header.Get("Accept"), runtime.ContentTypeProtobuf) {
		want = runtime.ContentTypeProtobuf
	}
	info, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), want)
	return encoder{info}
}

// object writes one object.
func (e encoder) object(w io.Writer, o runtime.Object) error {
	kinds, _, err := scheme.Scheme.ObjectKinds(o)
	if err != nil {
		return err
	}
	return scheme.Codecs.EncoderForVersion(e.Serializer, kinds[0].GroupVersion()).Encode(o, w)
}

// respond responds with an object.
func respond(w http.ResponseWriter, r *http.Request, code int, o runtime.Object) {
	e := encoderFor(r)
	w.Header().Set("Content-Type", e.MediaType)
	w.WriteHeader(code)
	_ = e.object(w, o)
}

// A stream writes the events of a watch.
type stream struct {
	encoder
	streaming.Encoder
	*http.ResponseController
}

// stream starts the response to a watch.
func (e encoder) stream(w http.ResponseWriter) stream {
	w.Header().Set("Content-Type", e.MediaType+";stream=watch")
	events := streaming.NewEncoder(e.StreamSerializer.Framer.NewFrameWriter(w), e.StreamSerializer)
	return stream{e, events, http.NewResponseController(w)}
}

func (s stream) send(e watch.Event) error {
	var b bytes.Buffer
	if err := s.object(&b, e.Object); err != nil {
		return err
	}
	return s.Encode(&metav1.WatchEvent{Type: string(e.Type), Object: runtime.RawExtension{Raw: b.Bytes()}})
}
