/* A norm as a plugin in C: `weight * x / sqrt(mean(x^2) + eps)` (Zhang and Sennrich, 2019).
 *
 *     cc -O2 -fPIC -shared -fvisibility=hidden -I core/plugin/include plugins/c-norm/norm.c -lm -o libc_norm.so
 *
 * In a spec: `[norm] kind = "menagerie/c-norm:rms"`. */
#include "menagerie_plugin.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const MenagerieHostApi *host_api;

/* What an instance keeps: the weight is the host's, for the life of the instance. */
typedef struct {
    float eps;
    uint64_t width;
    const float *weight;
} Norm;

/* Says why a function fails. */
static MenagerieStatus failed(const char *why)
{
    MenagerieText text = { (const uint8_t *)why, strlen(why) };
    host_api->set_error(host_api->context, text);
    return MENAGERIE_ERROR;
}

static MenagerieStatus create(const MenagerieBuild *build, void **instance)
{
    MenagerieText eps_name = MENAGERIE_TEXT("eps"), role = { NULL, 0 };
    MenagerieTensor weight;
    double eps = 0;
    /* Both are asked for before either fails: a user sees every fault at once. */
    MenagerieStatus option = build->real(build->context, eps_name, &eps);
    MenagerieStatus tensor = build->values(build->context, role, MENAGERIE_PART_MAIN, &weight);
    if (option != MENAGERIE_OK || tensor != MENAGERIE_OK)
        return MENAGERIE_ERROR;
    if (weight.ndim != 1 || (uint64_t)weight.shape[0] != build->width)
        return failed("the weight does not have the width of the norm");
    Norm *norm = malloc(sizeof *norm);
    if (norm == NULL)
        return failed("out of memory for a norm");
    norm->eps = (float)eps;
    norm->width = build->width;
    norm->weight = weight.data;
    *instance = norm;
    return MENAGERIE_OK;
}

static void destroy(void *instance)
{
    free(instance);
}

static MenagerieStatus forward(void *instance, const MenagerieCall *call)
{
    const Norm *norm = instance;
    if (call->n_inputs != 1 || call->n_outputs != 1)
        return failed("expected one input array and one output array");
    const MenagerieTensor *x = call->inputs, *y = call->outputs;
    if ((uint64_t)x->shape[1] != norm->width)
        return failed("the rows are not of the norm's width");
    for (int64_t row = 0; row < x->shape[0]; row++) {
        const float *in = (const float *)x->data + row * x->strides[0];
        float *out = (float *)y->data + row * y->strides[0];
        double sum = 0;
        for (uint64_t i = 0; i < norm->width; i++)
            sum += (double)in[i] * in[i];
        float scale = 1.0f / sqrtf((float)(sum / (double)norm->width) + norm->eps);
        for (uint64_t i = 0; i < norm->width; i++)
            out[i] = norm->weight[i] * (in[i] * scale);
    }
    return MENAGERIE_OK;
}

static const MenagerieOptionDef options[] = { {
    .name = MENAGERIE_TEXT("eps"),
    .doc = MENAGERIE_TEXT("Added to the mean square."),
    .kind = MENAGERIE_OPTION_DEF_REAL,
    .guarded = 1,
    .default_value = MENAGERIE_TEXT("1e-5"),
} };

static const MenagerieText weight_dims[] = { MENAGERIE_TEXT("width") };

/* A norm's own tensors have no name: they are where the norm stands. */
static const MenagerieRoleDef roles[] = { {
    .doc = MENAGERIE_TEXT("Multiplies the row."),
    .form = MENAGERIE_ROLE_DEF_VALUES,
    .dims = weight_dims,
    .n_dims = 1,
} };

static const MenagerieComponent rms = {
    .header = MENAGERIE_HEADER(MenagerieComponent),
    .family = MENAGERIE_COMPONENT_NORM,
    .name = MENAGERIE_TEXT("rms"),
    .doc = MENAGERIE_TEXT("`weight * x / sqrt(mean(x^2) + eps)` (Zhang and Sennrich, 2019)."),
    .options = options,
    .n_options = 1,
    .roles = roles,
    .n_roles = 1,
    .create = create,
    .destroy = destroy,
    .forward = forward,
};

MENAGERIE_MANIFEST const MenagerieManifest MENAGERIE_PLUGIN_MANIFEST_V1 = {
    MENAGERIE_MANIFEST_MAGIC, sizeof(MenagerieManifest), MENAGERIE_ABI_MAJOR, MENAGERIE_ABI_MINOR,
    MENAGERIE_CAPABILITY_CPU_F32, 0, "", "menagerie/c-norm", "0.1.0", "", "a C compiler", 0, { 0 }, { 0 },
};

MenagerieStatus menagerie_plugin_init_v1(const MenagerieHostApi *host, const MenagerieRegistrar *registrar)
{
    host_api = host;
    return registrar->add_component(registrar->context, &rms);
}
