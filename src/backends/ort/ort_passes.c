/* Names of ONNX Runtime's graph optimisers, 1.12 to 1.30: accepted by disable=NAME+NAME, and tried
 * when plumb searches for the optimiser to blame. A version that lacks a name ignores it. */
#include "backends/ort/ort_int.h"

/* clang-format off */
const char *const pl_ort_passes[] = {
    /* rewrite rules */
    "EliminateIdentity", "EliminateSlice", "UnsqueezeElimination", "EliminateDropout", "ExpandElimination", "CastElimination",
    "CastChainElimination", "PreShapeNodeElimination", "NoopElimination", "DivMulFusion", "FuseReluClip", "GemmSumFusion",
    "GemmTransposeFusion", "NotWhereFusion", "ConvAddFusion", "ConvMulFusion", "ConvBNFusion", "Pad_Fusion", "PadFusion",
    "MatMul_BatchNormalization_Fusion", "LabelEncoderFusion", "ClipQuantRewrite", "ReluQuantRewrite",
    /* level 1 */
    "ConstantFolding", "ConstantFoldingDQ", "MatMulAddFusion", "ReshapeFusion", "GeluFusion", "GeluFusionL1", "LayerNormFusion", "LayerNormFusionL1",
    "SimplifiedLayerNormFusion", "QDQPropagationTransformer", "EnsureUniqueDQForNodeUnit", "DoubleQDQPairsRemover", "CommonSubexpressionElimination",
    "ConstantSharing", "TransposeOptimizer", "WeightBiasQuantization", "WhereDummyDq", "ConcatSliceElimination", "IdenticalChildrenConsolidation",
    "SliceConcatToSpaceToDepthFusion", "GatherToSplitFusion", "GatherSliceToSplitFusion", "GatherToSliceFusion", "PropagateCastOps",
    "RemoveDuplicateCastTransformer", "FuseFp16InitializerToFp32NodeTransformer",
    /* level 2 */
    "GemmActivationFusion", "MatMulIntegerToFloatFusion", "DynamicQuantizeMatMulFusion", "ConvActivationFusion", "GeluFusionL2", "LayerNormFusionL2",
    "AttentionFusion", "EmbedLayerNormFusion", "MatmulTransposeFusion", "BiasGeluFusion", "GroupQueryAttentionFusion", "SkipLayerNormFusion",
    "BiasSkipLayerNormFusion", "FastGeluFusion", "QuickGeluFusion", "BiasSoftmaxFusion", "BiasDropoutFusion", "MatMulScaleFusion",
    "MatMulActivationFusion", "MatMulNBitsFusion", "DQMatMulNBitsFusion", "MatMulNBitsMlpFusion", "MatMulNBitsQkvFusion", "QDQSelectorActionTransformer",
    "QDQS8ToU8Transformer", "QDQFinalCleanupTransformer", "Avx2WeightS8ToU8Transformer", "IsInfReduceSumFusion", "ScaledSumFusion",
    "FreeDimensionOverrideTransformer",
    /* level 3 */
    "NchwcTransformer", "NhwcTransformer", "ConvAddActivationFusion",
    NULL
};
/* clang-format on */
